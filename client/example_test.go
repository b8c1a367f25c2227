package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

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
