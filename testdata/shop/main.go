// Shop is a program of the tests on package kennel, with three queues, and
// routes of each level. What its handlers do are lines on standard output.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"kennel"
)

// order is the message of all queues.
type order struct {
	N    int    `json:"n"`
	Kind string `json:"kind,omitempty"`
	Pad  string `json:"pad,omitempty"`
}

func main() { kennel.Main("shop", program) }

func program(a *kennel.App) error {
	color := a.Setting("COLOR", &kennel.SettingOptions{Default: "blue"})
	queues := make(map[string]*kennel.Queue[order])
	for _, name := range []string{"orders", "mails", "bills"} {
		options := &kennel.QueueOptions[order]{}
		if name != "orders" {
			options.StorageQueue = "jobs"
		}
		queues[name] = kennel.NewQueue(a, name, options)
		queues[name].Handle(handle, &kennel.HandleOptions[order]{Retry: func(int, error) time.Duration { return time.Second }})
	}
	a.HandleFunc("GET /color", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, color.Value()) }, nil)
	word := func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.PathValue("word")) }
	a.HandleFunc("GET /open/{word}", word, &kennel.RouteOptions{Level: kennel.LevelAnonymous})
	a.HandleFunc("GET /secrets/{word}", word, &kennel.RouteOptions{Level: kennel.LevelAdmin})
	a.HandleFunc("POST /orders/{queue}", func(w http.ResponseWriter, r *http.Request) {
		var o order
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil || queues[r.PathValue("queue")] == nil {
			http.Error(w, "send an order to orders, mails or bills", http.StatusBadRequest)
			return
		}
		sent, err := queues[r.PathValue("queue")].Send(r.Context(), o, nil)
		if err != nil {
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintln(w, sent.ID)
	}, nil)
	return nil
}

// handle works on an order: one of ten fails at first.
func handle(ctx context.Context, o order) error {
	a, _ := kennel.Current(ctx)
	if o.Kind == "fails once" && a.Number == 1 {
		return errors.New("the first attempt fails")
	}
	line, _ := json.Marshal(map[string]any{"done": o.N, "queue": a.Queue, "attempt": a.Number}) // of an int, a string and an int
	_, err := fmt.Fprintf(os.Stdout, "%s\n", line)
	return err
}
