package work_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/queue"
	"kennel/work"
)

// TestHeldAtTheGate closes the gate for two hours while a batch is queued. No
// delivery attempt is used up and nothing becomes a dead letter. After the
// release all parcels that wait at the gate start at once, and the batch is not
// late for its time at the gate.
func TestHeldAtTheGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const parcels, closed = 12, 2 * time.Hour
		w := newWorld(t, 0, nil)
		w.gate.set(false)
		p := w.start(&work.Options{Gate: w.gate, Latency: 10 * time.Minute}, nil)
		o := &order{name: "n", items: someItems("i", parcels*work.ParcelItems, small)}
		b, created, err := o.submit(t.Context(), p)
		if err != nil || !created || b.Parcels != parcels {
			t.Fatalf("submit: %+v, %v, %v", b, created, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var running sync.WaitGroup
		running.Go(func() { p.live(ctx, 32, nil) })
		held := time.Now()
		for time.Since(held) < closed || w.gate.waiters() < parcels {
			time.Sleep(10 * time.Second)
			seen := 0
			for _, name := range queueNames(maxPartitions) {
				for _, m := range w.queues.All(name) {
					e, err := queue.Parse(m.Body)
					if seen++; err != nil || e.Attempts > 0 || m.DequeueCount > 1 {
						t.Fatalf("after %v, message %s has %d attempts and was received %d times: %v", time.Since(held), e.ID, e.Attempts, m.DequeueCount, err)
					}
				}
			}
			if seen < parcels {
				t.Fatalf("after %v, %d messages of %d parcels", time.Since(held), seen, parcels)
			}
			if time.Since(held) > closed+time.Hour {
				t.Fatalf("%d parcels wait at the gate, want %d", w.gate.waiters(), parcels)
			}
		}
		b, err = p.Get(t.Context(), b.ID)
		if err != nil || b.State != work.Held || b.LateBy != 0 {
			t.Errorf("while the gate is closed: %+v, %v", b, err)
		}
		if len(w.begun) > 0 {
			t.Errorf("%d items were processed", len(w.begun))
		}
		released := time.Now()
		w.gate.set(true)
		w.await(t.Context(), time.Hour)
		stop()
		running.Wait()
		var last time.Duration
		for _, begun := range w.begun {
			last = max(last, begun.Sub(released))
		}
		t.Logf("figure: from the release of the gate after two hours until all of %d parcels that wait at it are processed | %v | ≤ 100ms", parcels, last)
		if last > 100*time.Millisecond {
			t.Errorf("a parcel began %v after the release", last)
		}
		for id, n := range w.tries {
			if n > 1 {
				t.Fatalf("item %s was processed %d times", id, n)
			}
		}
		w.check([]*order{o}, 0)
		if b, err = p.Get(t.Context(), b.ID); err != nil || b.LateBy != 0 {
			t.Errorf("at the end: %+v, %v, want it not late", b, err)
		}
	})
}

// TestLate checks how late a batch is: by the time since its submission, or
// since the gate opened.
func TestLate(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		t.Run(fmt.Sprint("closed ", closed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 0, nil)
				w.gate.set(!closed)
				p := w.start(&work.Options{Gate: w.gate, Latency: time.Minute}, nil)
				o := &order{name: "n", items: someItems("i", 1, small)}
				b, _, err := o.submit(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				late := func(want time.Duration) {
					t.Helper()
					if b, err := p.Get(t.Context(), b.ID); err != nil || time.Duration(b.LateBy*float64(time.Second)).Round(time.Second) != want {
						t.Errorf("batch %+v, %v, want it late by %v", b, err, want)
					}
				}
				time.Sleep(30 * time.Second)
				late(0)
				time.Sleep(30 * time.Minute)
				if closed {
					late(0)
					w.gate.set(true)
					time.Sleep(30 * time.Second)
					late(0)
					time.Sleep(10 * time.Minute)
					late(9*time.Minute + 30*time.Second)
				} else {
					late(29*time.Minute + 30*time.Second)
				}
			})
		})
	}
}
