package work

import (
	"context"
	"sync"
	"time"

	"kennel/internal/table"
)

// tally counts the requests that are made for a batch. It travels in the ctx of
// the call that makes them.
type tally struct {
	mu         sync.Mutex
	operations float64 // guarded by mu
}

type tallyKey struct{}

// withTally returns a ctx whose requests are counted by the tally.
func withTally(ctx context.Context) (context.Context, *tally) {
	t := new(tally)
	return context.WithValue(ctx, tallyKey{}, t), t
}

// count adds operations to the tally in ctx, if it has one.
func count(ctx context.Context, operations float64) {
	if t, ok := ctx.Value(tallyKey{}).(*tally); ok {
		t.mu.Lock()
		t.operations += operations
		t.mu.Unlock()
	}
}

// total returns the operations so far.
func (t *tally) total() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.operations
}

// ofMessage returns the operations that a message costs beside what its
// receiver does: a share of the request that received it, the request that
// deletes it, and those of the Functions host.
func (b *Batches) ofMessage(m Message) float64 { return m.Share + 1 + b.opt.HostShare }

type countedRows struct{ table.Store }

func (r countedRows) Get(ctx context.Context, partition, key string) (table.Row, error) {
	count(ctx, 1)
	return r.Store.Get(ctx, partition, key)
}

func (r countedRows) Query(ctx context.Context, q table.Query) (table.Page, error) {
	count(ctx, 1)
	return r.Store.Query(ctx, q)
}

func (r countedRows) Submit(ctx context.Context, writes ...table.Write) ([]string, error) {
	count(ctx, 1)
	return r.Store.Submit(ctx, writes...)
}

func counted(put Put) Put {
	return func(ctx context.Context, queue, text string, delay time.Duration) error {
		count(ctx, 1)
		return put(ctx, queue, text, delay)
	}
}
