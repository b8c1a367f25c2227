package queue_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/memory"
	"kennel/queue"
)

// BenchmarkListener compares the listener with a bare loop over the same store
// in memory: one goroutine receives batches of 32 until the queue is empty, and as
// many goroutines delete as the listener's. The ratio is the median of alternating rounds.
func BenchmarkListener(b *testing.B) {
	const messages, rounds = 2000, 21
	for b.Loop() {
		var ratios []float64
		for range rounds {
			bare := timed(b, messages, receiveBare)
			ours := timed(b, messages, receiveByListener)
			ratios = append(ratios, float64(bare)/float64(ours))
		}
		slices.Sort(ratios)
		b.Logf("figure: messages received and deleted, in memory | %.2f × the rate of a bare loop | ≥ 0.5 ×", ratios[rounds/2])
	}
}

// timed returns how long it takes to receive and delete messages.
func timed(b *testing.B, messages int, consume func(testing.TB, *memory.Queues, int)) time.Duration {
	queues := memory.NewQueues(nil)
	for i := range messages {
		if _, err := queues.Put(b.Context(), "work", fmt.Sprint("item ", i), 0); err != nil {
			b.Fatal(err)
		}
	}
	begun := time.Now()
	consume(b, queues, messages)
	return time.Since(begun)
}

func receiveBare(t testing.TB, queues *memory.Queues, messages int) {
	received := make(chan queue.Message, 64)
	var deleting sync.WaitGroup
	for range 16 {
		deleting.Go(func() {
			for m := range received {
				if err := queues.Delete(t.Context(), "work", m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for left := messages; ; {
		batch, err := queues.Receive(t.Context(), "work", 32, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range batch {
			received <- m
		}
		if left -= len(batch); len(batch) == 0 {
			if left > 0 {
				t.Errorf("%d messages are left", left)
			}
			break
		}
	}
	close(received)
	deleting.Wait()
}

func receiveByListener(t testing.TB, queues *memory.Queues, messages int) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var left atomic.Int64
	left.Store(int64(messages))
	handle := func(context.Context, queue.Delivery[string]) error {
		if left.Add(-1) == 0 {
			stop()
		}
		return nil
	}
	l, err := queue.NewListener(queues, []string{"work"}, queue.Text{}, handle, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Run(ctx); err != nil {
		t.Error(err)
	}
	if all := queues.All("work"); len(all) != 0 {
		t.Errorf("%d messages are left", len(all))
	}
}
