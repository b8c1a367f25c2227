package ids_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// TestColdStartOfThousand starts 1,000 nodes at once on one blob that serves
// 500 requests per second with a round trip of 50 ms. With the retry policy of
// the article, 950 of them give up.
func TestColdStartOfThousand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 1000
		line := &memory.Line{PerSecond: 500, RoundTrip: 50 * time.Millisecond}
		store := memory.NewSequences(&memory.Options{Fault: line.Fault})
		start := time.Now()
		issued := newTally(t)
		var requests, worst int64 // guarded by the tally's mu
		var started sync.WaitGroup
		for i := range nodes {
			g := newGenerator(t, store, nil)
			started.Go(func() {
				n := next(t, g)
				issued.add(i, ids.Range{First: n, Last: n})
				made := g.Stats().Requests
				issued.mu.Lock()
				requests, worst = requests+made, max(worst, made)
				issued.mu.Unlock()
				closeNow(g)
			})
		}
		started.Wait()
		took := time.Since(start)
		store.Wait()
		t.Logf("figure: 1,000 nodes start at once on one blob that serves 500 requests a second | all in %.0f s | ≤ 170 s", took.Seconds())
		t.Logf("figure: 1,000 nodes start at once: requests of one node, at most (mean %.1f) | %d | ≤ 30", float64(requests)/nodes, worst)
		if len(issued.owner) != nodes || took > 170*time.Second || worst > 30 {
			t.Errorf("%d nodes started in %v with up to %d requests each, want %d in 170 s with 30", len(issued.owner), took, worst, nodes)
		}
	})
}

// outage is a store with a round trip of 50 ms that fails while it is down.
type outage struct{ down atomic.Bool }

func (o *outage) fault(memory.Call) memory.Fault {
	f := memory.Fault{Delay: 25 * time.Millisecond, Back: 25 * time.Millisecond}
	if o.down.Load() {
		f.Err, f.Lost = errLost, true
	}
	return f
}

// 64 goroutines draw 10,000 numbers per second.
func TestSteadyDemandNeverWaits(t *testing.T) {
	storetest.OnlyInProve(t)
	const goroutines, burst = 64, 10
	const perSecond = 10_000
	every := time.Second * goroutines * burst / time.Duration(perSecond)
	synctest.Test(t, func(t *testing.T) {
		var o outage
		g := newGenerator(t, memory.NewSequences(&memory.Options{Fault: o.fault}), nil)
		done := make(chan struct{})
		var drawing sync.WaitGroup
		for i := range goroutines {
			drawing.Go(func() {
				time.Sleep(every * time.Duration(i) / goroutines)
				for {
					for range burst {
						next(t, g)
					}
					select {
					case <-time.After(every):
					case <-done:
						return
					}
				}
			})
		}

		time.Sleep(time.Second)
		warm := g.Stats()
		time.Sleep(80 * time.Second) // ranges last a minute when the demand has lasted as long
		calm := g.Stats()
		// Outages that the available numbers must cover, at various moments, and
		// until a reservation has met one.
		for i := 0; i < 20 && (i < 4 || g.Stats().Failures == 0); i++ {
			o.down.Store(true)
			time.Sleep(10 * time.Second)
			o.down.Store(false)
			time.Sleep(17 * time.Second)
		}
		s := g.Stats()
		t.Logf("figure: calls that waited, storage 50 ms away (%d calls a second) | %d | 0", perSecond, calm.Waits-warm.Waits)
		t.Logf("figure: calls that waited in outages of storage of 10 s | %d | 0", s.Waits-calm.Waits)
		if s.Waits != warm.Waits {
			t.Errorf("%d calls waited for storage after the first second, and %d of them in outages of 10 s, want 0", s.Waits-warm.Waits, s.Waits-calm.Waits)
		}
		if s.Failures == 0 || s.Issued < int64(60*perSecond) {
			t.Errorf("%d numbers were issued and %d requests failed: too few for a meaningful test", s.Issued, s.Failures)
		}
		close(done)
		drawing.Wait()
		closeCleanly(t, g)
	})
}

// In an outage that outlasts the available numbers, a call fails at its
// deadline and its error wraps the store's error. The generator recovers
// afterwards without help.
func TestLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outage
		store := memory.NewSequences(&memory.Options{Fault: o.fault})
		o.down.Store(true)
		why := errors.New("the client closed the connection")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, why)
		defer cancel()
		g := newGenerator(t, store, nil)
		if _, err := g.Next(ctx); !errors.Is(err, why) || !errors.Is(err, errLost) {
			t.Errorf("Next while the store is down: %v, want the cause of ctx and the store's error", err)
		}
		bounded := newGenerator(t, store, &ids.Options{MaxWait: time.Second})
		if _, err := bounded.Next(t.Context()); !errors.Is(err, ids.ErrUnavailable) || !errors.Is(err, errLost) {
			t.Errorf("Next with MaxWait: %v, want ErrUnavailable and the store's error", err)
		}
		bounded.Close(t.Context())
		o.down.Store(false)
		if n := next(t, g); n != 1 {
			t.Errorf("first number after the outage = %d, want 1", n)
		}
		closeCleanly(t, g)
	})
}

// A reservation that failed is repeated before the available numbers are used
// up, also at a demand at which they last for minutes.
func TestFailedReservationIsRepeated(t *testing.T) {
	for _, every := range []time.Duration{time.Second, 200 * time.Millisecond, 40 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			const beforeFourth = 3 // read, write and marker of the first range
			store := memory.NewSequences(&memory.Options{Fault: memory.RefuseNth(beforeFourth+1, errLost)})
			g := newGenerator(t, store, nil)
			for range 3000 {
				next(t, g)
				time.Sleep(every)
			}
			if s := g.Stats(); s.Waits != 1 || s.Failures != 1 {
				t.Errorf("a number every %v: %d calls waited and %d requests failed, want the first call and one request", every, s.Waits, s.Failures)
			}
			closeCleanly(t, g)
		})
	}
}
