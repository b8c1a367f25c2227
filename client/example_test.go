package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"kennel/client"
)

func Example() {
	// In a program: the address of the app.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/sequences/orders/next":
			fmt.Fprint(w, `{"sequence":"orders","first":1001,"last":1003,"count":3}`)
		case "/api/gates/hounds/wait":
			fmt.Fprint(w, `{"gate":"hounds","released":true,"generation":1767323045000,"releases":1}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"code":"channel_not_found","message":"The channel does not exist or was deleted."}}`)
		}
	}))
	defer server.Close()

	ctx := context.Background()
	app, err := client.New(server.URL, &client.Options{
		Notify: func(n client.Notice) { log.Print(n) },
	})
	if err != nil {
		log.Fatal(err)
	}

	// Three numbers that no other caller gets.
	numbers, err := app.Next(ctx, "orders", 3)
	if err != nil {
		log.Fatal(err)
	}
	for n := range numbers.All() {
		fmt.Println("order", n)
	}

	// Wait until the gate is released, without a limit of time.
	if _, err := app.Wait(ctx, "hounds", client.Now, 0); err != nil {
		log.Fatal(err)
	}
	fmt.Println("released")

	// Programs branch on the code of an error.
	_, err = app.Channel(ctx, "news")
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code == "channel_not_found" {
		fmt.Println("no such channel")
	}
	// Output:
	// order 1001
	// order 1002
	// order 1003
	// released
	// no such channel
}

// A message of which it is unclear whether it was sent is sent again with the
// same ID: an entity that detects duplicates stores it once.
func ExampleClient_SendMessage() {
	// In a program: the address of the app.
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if requests++; requests == 1 {
			w.WriteHeader(http.StatusGatewayTimeout)
			fmt.Fprint(w, `{"error":{"code":"send_unclear","message":"The message may have been sent."}}`)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"messageId":"order-1001","sentTo":"backlog"}`)
	}))
	defer server.Close()

	app, err := client.New(server.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	m := client.Message{
		ID:          "order-1001",
		Body:        []byte(`{"order":1001}`),
		ContentType: "application/json",
		SessionID:   "ann",
		Properties:  map[string]any{"express": true, "weight": 1.5},
	}
	sent, err := app.SendMessage(context.Background(), "orders", m)
	for errors.Is(err, client.ErrUnclear) {
		fmt.Println("send it again")
		sent, err = app.SendMessage(context.Background(), "orders", m)
	}
	if err != nil {
		log.Fatal(err)
	}
	if sent.SentTo == client.SentToBacklog {
		fmt.Println(sent.MessageID, "arrives after the outage")
	}
	// Output:
	// send it again
	// order-1001 arrives after the outage
}

// A line that cannot be sent does not stop the others.
func ExampleClient_SendLinesToQueue() {
	// In a program: the address of the app.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"sent":2,"duplicates":0,"failed":[{"line":2,"code":"bad_message","message":"The queue does not take the message: to is missing."}]}`)
	}))
	defer server.Close()
	app, err := client.New(server.URL, nil)
	if err != nil {
		log.Fatal(err)
	}

	emails := `{"to":"ann"}

{"subject":"to nobody"}
{"to":"bob"}`
	sent, err := app.SendLinesToQueue(context.Background(), "emails", strings.NewReader(emails), &client.QueueLinesOptions{Bodies: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent.Sent, "sent")
	for _, line := range sent.Failed {
		fmt.Printf("line %d: %s\n", line.Line, line.Message)
	}
	// Output:
	// 2 sent
	// line 3: The queue does not take the message: to is missing.
}

func ExampleClient_Sequence() {
	// In a program: the address of the app.
	first := 1001
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var count int
		fmt.Sscan(r.URL.Query().Get("count"), &count)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"sequence":"orders","first":%d,"last":%d,"count":%d}`, first, first+count-1, count)
		first += count
	}))
	defer server.Close()
	app, err := client.New(server.URL, nil)
	if err != nil {
		log.Fatal(err)
	}

	// Numbers one by one, of which few need a request.
	orders, err := app.Sequence("orders", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer orders.Close()
	for range 3 {
		n, err := orders.Next(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("order", n)
	}
	// Output:
	// order 1001
	// order 1002
	// order 1003
}
