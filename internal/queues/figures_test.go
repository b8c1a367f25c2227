package queues

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/worker"
	"kennel/queue"
)

// BenchmarkQueues compares a worker of a program with a bare loop over the same
// messages in memory: one goroutine receives batches of 32 until the queue is
// empty, and as many goroutines as a worker has read the messages and delete them.
// The ratio is the median of rounds that alternate.
func BenchmarkQueues(b *testing.B) {
	const messages, rounds = 2000, 21
	for b.Loop() {
		var ratios []float64
		for range rounds {
			bare := consumed(b, messages, bareLoop)
			ours := consumed(b, messages, worked)
			ratios = append(ratios, float64(bare)/float64(ours))
		}
		slices.Sort(ratios)
		b.Logf("figure: messages of a program done by a worker, in memory | %.2f × the rate of a bare loop | ≥ 0.5 ×", ratios[rounds/2])
	}
}

// TestRequests: a message that waits with many costs a worker one request more
// than its part of a receive.
func TestRequests(t *testing.T) {
	const messages = 1000
	w := newWorld(nil)
	fill(t, w, messages)
	before := w.queues.Calls()
	worked(t, w, messages)
	each := float64(w.queues.Calls()-before) / messages
	t.Logf("figure: requests of a worker for each of 1,000 messages of a program, without the put | %.3f | ≤ 1.04", each)
	if each > 1.04 {
		t.Errorf("%.3f requests for each message", each)
	}
}

// fill sends messages.
func fill(t testing.TB, w *world, messages int) {
	q := w.open(t, storetest.NewProcess(nil), true, nil)
	for i := range messages {
		if _, err := q.Send(t.Context(), "orders", order{Kind: "quick", N: i}.text(), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// consumed returns how long it takes to work on messages.
func consumed(b *testing.B, messages int, consume func(testing.TB, *world, int)) time.Duration {
	w := newWorld(&memory.Options{})
	fill(b, w, messages)
	begun := time.Now()
	consume(b, w, messages)
	return time.Since(begun)
}

func worked(t testing.TB, w *world, messages int) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	q := w.open(t, storetest.NewProcess(nil), false, nil)
	var left atomic.Int64
	left.Store(int64(messages))
	q.declared["orders"].Work = func(_ context.Context, body []byte) error {
		var o order
		if err := json.Unmarshal(body, &o); err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		if left.Add(-1) == 0 {
			stop()
		}
		return nil
	}
	q.listeners = q.listeners[1:] // sorted: jobs, orders
	if err := q.Work(ctx); err != nil {
		t.Error(err)
	}
	if all := w.queues.All("orders"); len(all) != 0 {
		t.Errorf("%d messages are left", len(all))
	}
}

func bareLoop(t testing.TB, w *world, messages int) {
	p := storetest.NewProcess(nil)
	store, claims := p.Queues(w.queues), w.open(t, p, true, nil).claims["orders"]
	received := make(chan queue.Message, 64)
	var deleting sync.WaitGroup
	for range 8 {
		deleting.Go(func() {
			for m := range received {
				var o order
				text, err := worker.TextOf(m.Body)
				if err == nil {
					var body []byte
					if _, body, err = claims.Unpack(t.Context(), text); err == nil {
						err = json.Unmarshal(body, &o)
					}
				}
				if err != nil {
					t.Error(err)
				}
				if err := store.Delete(t.Context(), "orders", m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for left := messages; left > 0; {
		batch, err := store.Receive(t.Context(), "orders", queue.MaxReceive, time.Minute)
		if err != nil || len(batch) == 0 {
			t.Fatalf("%d messages are left, %v", left, err)
		}
		for _, m := range batch {
			received <- m
		}
		left -= len(batch)
	}
	close(received)
	deleting.Wait()
}
