package store

import (
	"context"
	"sync"
	"time"

	"kennel/internal/table"
	"kennel/work/internal/model"
)

// Tally counts the requests that are made for a batch. It travels in the ctx of
// the call that makes them.
type Tally struct {
	mu         sync.Mutex
	operations float64 // guarded by mu
}

type tallyKey struct{}

// WithTally returns a ctx whose requests are counted by the tally.
func WithTally(ctx context.Context) (context.Context, *Tally) {
	t := new(Tally)
	return context.WithValue(ctx, tallyKey{}, t), t
}

// Count adds operations to the tally in ctx, if it has one.
func Count(ctx context.Context, operations float64) {
	if t, ok := ctx.Value(tallyKey{}).(*Tally); ok {
		t.mu.Lock()
		t.operations += operations
		t.mu.Unlock()
	}
}

// Total returns the operations so far.
func (t *Tally) Total() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.operations
}

type countedRows struct{ table.Store }

func (r countedRows) Get(ctx context.Context, partition, key string) (table.Row, error) {
	Count(ctx, 1)
	return r.Store.Get(ctx, partition, key)
}

func (r countedRows) Query(ctx context.Context, q table.Query) (table.Page, error) {
	Count(ctx, 1)
	return r.Store.Query(ctx, q)
}

func (r countedRows) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	Count(ctx, 1)
	return r.Store.Submit(ctx, writes...)
}

func CountPuts(put model.Put) model.Put {
	return func(ctx context.Context, queue, text string, delay time.Duration) error {
		Count(ctx, 1)
		return put(ctx, queue, text, delay)
	}
}
