package work_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
	"kennel/work"
)

// TestSmallBehindLarge submits a batch of 100 items right after a large one. It
// takes little longer than alone.
func TestSmallBehindLarge(t *testing.T) {
	t.Parallel()
	large := storetest.Scale(10_000, 100_000)
	alone, behind := smallBatch(t, 0), smallBatch(t, large)
	t.Logf("figure: batch of 100 items behind one of %d, each item taking 100 ms (alone %v) | %v | ≤ 2 × alone + 5 s", large, alone.Round(time.Millisecond), behind.Round(time.Millisecond))
	if behind > 2*alone+5*time.Second {
		t.Errorf("it took %v, and alone %v", behind, alone)
	}
}

// smallBatch returns how long a batch of 100 items takes behind a large one.
func smallBatch(t *testing.T, large int) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0, func(string) func(memory.Call) memory.Fault {
			return func(memory.Call) memory.Fault {
				return memory.Fault{Delay: 2 * time.Millisecond, Back: 2 * time.Millisecond}
			}
		})
		p := w.start(nil, nil)
		l := listen(t, p.Batches, p.queues, &queue.ListenerOptions{Hands: 16, MaxIdle: time.Second})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(10 * time.Second)
		slow := func(of string, n int) []item {
			items := someItems(of, n, small)
			for i := range items {
				items[i].Millis = 100
			}
			return items
		}
		submit := func(of string, n int) work.Batch {
			o := &order{name: of, items: slow(of, n)}
			b, _, err := o.submit(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		if large > 0 {
			submit("large", large)
			time.Sleep(3 * time.Second)
		}
		began := time.Now()
		b := submit("small", 100)
		for b.State != work.Done && time.Since(began) < time.Hour {
			time.Sleep(50 * time.Millisecond)
			var err error
			if b, err = p.Get(t.Context(), b.ID); err != nil {
				t.Fatal(err)
			}
		}
		took = time.Since(began)
		stop()
		running.Wait()
		w.wait()
	})
	return took
}
