// Starter is a program on Kennel, to begin with: a route that takes orders, a
// queue whose handler works on them, a timer and a setting.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	"kennel"
)

func main() { kennel.Main("starter", newShop(dispatch).program) }

// Order is a message of the queue "orders".
type Order struct {
	Customer string `json:"customer"`
	Item     string `json:"item"`
}

// Shop is the program.
type Shop struct {
	orders   *kennel.Queue[Order]
	greeting *kennel.Setting
	dispatch func(ctx context.Context, key string, o Order) error
	handled  atomic.Int64 // by this process
}

func newShop(dispatch func(context.Context, string, Order) error) *Shop {
	return &Shop{dispatch: dispatch}
}

// program declares the parts. It opens nothing and reads no setting.
func (s *Shop) program(a *kennel.App) error {
	s.greeting = a.Setting("GREETING", &kennel.SettingOptions{Default: "Thank you", Description: "the first words of an answer"})
	s.orders = kennel.NewQueue(a, "orders", &kennel.QueueOptions[Order]{Validate: validate})
	s.orders.Handle(s.handle, &kennel.HandleOptions[Order]{Concurrency: 8})
	a.Timer("report", "0 * * * *", s.report, nil) // each hour, once in the program
	a.HandleFunc("POST /orders", s.order, &kennel.RouteOptions{Level: kennel.LevelAnonymous})
	return nil
}

// validate returns what is wrong with an order. The sender gets it.
func validate(o Order) error {
	if o.Customer == "" || o.Item == "" {
		return errors.New("an order needs a customer and an item")
	}
	return nil
}

// order serves POST /api/orders.
func (s *Shop) order(w http.ResponseWriter, r *http.Request) {
	var o Order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, "the body is no order: "+err.Error(), http.StatusBadRequest)
		return
	}
	sent, err := s.orders.Send(r.Context(), o, nil)
	if err != nil {
		kennel.Error(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintf(w, "%s, %s: order %s is queued\n", s.greeting.Value(), o.Customer, sent.ID)
}

// handle works on an order. It can run more than once for a message, and the ID
// of the attempt is the same each time.
func (s *Shop) handle(ctx context.Context, o Order) error {
	attempt, _ := kennel.Current(ctx)
	if err := s.dispatch(ctx, attempt.ID, o); err != nil {
		return err // the next attempt follows after a wait
	}
	s.handled.Add(1)
	return nil
}

// dispatch stands for a call of another system, which recognises a repeated key.
func dispatch(ctx context.Context, key string, o Order) error {
	slog.InfoContext(ctx, "order dispatched", "order", key, "customer", o.Customer, "item", o.Item)
	return nil
}

// report is the timer.
func (s *Shop) report(ctx context.Context) error {
	slog.InfoContext(ctx, "orders handled by this process", "orders", s.handled.Load())
	return nil
}
