// Package orders is a program of two binaries: examples/orders/api takes orders
// by HTTP, and examples/orders/worker ships them. Both declare the queue here, so
// that they agree on its type.
//
//	kennel functions ./examples/orders/api ./examples/orders/worker
package orders

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"kennel"
)

// Program is the name that both binaries have in the storage account.
const Program = "orders"

// Order is the message.
type Order struct {
	Customer string `json:"customer"`
	Item     string `json:"item"`
}

func validate(o Order) error {
	if o.Customer == "" || o.Item == "" {
		return errors.New("customer or item is missing")
	}
	return nil
}

// API declares what takes orders.
func API(a *kennel.App) error {
	queue := kennel.NewQueue(a, "orders", &kennel.QueueOptions[Order]{Validate: validate, SendOnly: true})
	a.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var o Order
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, "send an order as JSON", http.StatusBadRequest)
			return
		}
		if _, err := queue.Send(r.Context(), o, nil); err != nil {
			kennel.Error(w, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}, nil)
	return nil
}

// Worker declares what ships them. ship may be called twice for an order.
func Worker(ship func(ctx context.Context, id string, o Order) error) kennel.Program {
	return func(a *kennel.App) error {
		queue := kennel.NewQueue(a, "orders", &kennel.QueueOptions[Order]{Validate: validate})
		queue.Handle(func(ctx context.Context, o Order) error {
			attempt, _ := kennel.Current(ctx)
			return ship(ctx, attempt.ID, o)
		}, nil)
		return nil
	}
}
