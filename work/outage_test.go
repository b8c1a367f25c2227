package work_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// TestLostMessages loses each message once: it is deleted without a result, as
// after too many attempts. The sweep restarts the batch.
func TestLostMessages(t *testing.T) {
	t.Parallel()
	runs := 0
	for _, shape := range []string{"one item", "failed", "a claim that fails", "failing"}[:storetest.Scale(3, 4)] {
		for n := int64(1); ; n++ {
			lost := false
			synctest.Test(t, func(t *testing.T) {
				var received atomic.Int64
				w := newWorld(t, 0, nil)
				w.lose = func() bool { return received.Add(1) == n }
				w.finishes(&order{name: "n", items: shapes[shape]()}, true)
				lost = received.Load() >= n
			})
			if runs++; t.Failed() {
				t.Fatalf("%s: message %d was lost", shape, n)
			}
			if !lost {
				break
			}
		}
	}
	t.Logf("figure: items without one result, and what is left, after each message was lost (%d runs) | 0 | 0", runs)
}

// finishes runs a batch in one process, and checks it. accepted is whether the
// submission must be confirmed.
func (w *world) finishes(o *order, accepted bool) {
	w.t.Helper()
	p := w.start(nil, nil)
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	_, _, err := o.submit(ctx, p)
	cancel()
	if err != nil && accepted {
		w.t.Errorf("submit: %v", err)
	}
	life, end := context.WithCancel(w.t.Context())
	var living sync.WaitGroup
	living.Go(func() { p.live(life, 8, nil) })
	for range 2 {
		w.await(w.t.Context(), 6*time.Hour)
		time.Sleep(5 * time.Minute) // no request is late after that
	}
	w.await(w.t.Context(), 6*time.Hour)
	end()
	living.Wait()
	w.wait()
	w.calm.Store(true)
	w.check([]*order{o}, 1<<30)
	w.checkRetention(p)
}

// TestOutageAtEachRequest refuses all requests for a while, from each request on.
// The first one of them is lost, applied without an answer, or applied when the
// outage has ended. A submission that fails leaves nothing, or becomes a batch
// that is finished.
func TestOutageAtEachRequest(t *testing.T) {
	t.Parallel()
	runs := 0
	first := map[string]memory.Fault{
		"lost":       {Err: errReset, Lost: true},
		"unanswered": {Err: errReset},
		"late":       {Err: errReset, After: 3 * time.Minute},
	}
	for how, fault := range first {
		// After the short one, what follows from a failure does not fail.
		for _, outage := range []time.Duration{2 * time.Second, 2 * time.Minute} {
			for _, key := range []string{"", "k"} {
				for n, begun := int64(1), true; begun; n++ {
					synctest.Test(t, func(t *testing.T) { begun = runOutage(t, key, n, fault, outage) })
					if runs++; t.Failed() {
						t.Fatalf("request %d was %s, outage of %v, key %q", n, how, outage, key)
					}
					if n > 5 {
						n += int64(rand.IntN(storetest.Scale(40, 1)))
					}
				}
			}
		}
	}
	t.Logf("figure: items without one result, and what is left, after an outage at each request (%d runs) | 0 | 0", runs)
}

// runOutage reports whether the n-th request was made.
func runOutage(t *testing.T, key string, n int64, fault memory.Fault, outage time.Duration) (begun bool) {
	var mu sync.Mutex
	var sent int64
	var end time.Time
	var w *world
	w = newWorld(t, 0, func(string) func(memory.Call) memory.Fault {
		return func(memory.Call) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			sent++
			switch {
			case w.calm.Load():
			case sent == n:
				begun, end = true, time.Now().Add(outage)
				return fault
			case time.Now().Before(end):
				return memory.Fault{Err: memory.ErrBusy, Lost: true}
			}
			return memory.Fault{}
		}
	})
	items := shapes["failing"]()
	if !storetest.Proving() { // one parcel
		items = someItems("i", 3, small)
		items[1].Fails = 1
	}
	w.finishes(&order{name: "n", key: key, items: items}, false)
	return begun
}
