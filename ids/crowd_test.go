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
)

// crowdResult is how 1,000 nodes fared that all wanted their first range at
// once.
type crowdResult struct {
	took     time.Duration
	requests int64 // of all nodes
	worst    int64 // of one node
}

// crowd starts nodes in one instant on one blob that serves 500 requests a
// second, 50 ms away. It is the cold start that the article's retry policy
// does not survive: 950 of 1,000 nodes give up.
func crowd(t testing.TB, nodes int) crowdResult {
	line := &memory.Line{PerSecond: 500, RoundTrip: 50 * time.Millisecond}
	store := memory.NewSequences(&memory.Options{Fate: line.Fate})
	start := time.Now()
	var (
		started sync.WaitGroup
		mu      sync.Mutex
		res     crowdResult
		seen    = make(map[int64]bool)
	)
	for range nodes {
		g := newGenerator(t, store, nil)
		started.Go(func() {
			n, err := g.Next(t.Context())
			requests := g.Stats().Requests
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[n] {
				t.Errorf("a node got number %d, seen before: %v, error %v", n, seen[n], err)
			}
			seen[n] = true
			res.took = max(res.took, time.Since(start))
			res.requests += requests
			res.worst = max(res.worst, requests)
			closeNow(g)
		})
	}
	started.Wait()
	store.Wait()
	return res
}

// closeNow ends a generator as a kill does: without a further request.
func closeNow(g *ids.Generator) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	g.Close(ctx)
}

func newGenerator(t testing.TB, store ids.Store, o *ids.Options) *ids.Generator {
	t.Helper()
	g, err := ids.New(store, "orders", o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestColdStartOfThousand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := crowd(t, 1000)
		t.Logf("figure: 1,000 nodes start at once on one blob | all in %.0f s | ≤ 170 s", r.took.Seconds())
		t.Logf("figure: … requests of the unluckiest node (mean %.1f) | %d | ≤ 30", float64(r.requests)/1000, r.worst)
		if r.took > 170*time.Second {
			t.Errorf("took %v, want at most 170 s", r.took)
		}
		if r.worst > 30 {
			t.Errorf("one node made %d requests, want at most 30", r.worst)
		}
	})
}

// steady draws 10,000 numbers a second from 64 goroutines until done.
func steady(t testing.TB, g *ids.Generator, done <-chan struct{}) *sync.WaitGroup {
	const goroutines, perSecond, burst = 64, 10_000, 10
	every := time.Second * goroutines * burst / perSecond
	var drawing sync.WaitGroup
	for i := range goroutines {
		drawing.Go(func() {
			time.Sleep(every * time.Duration(i) / goroutines)
			for {
				for range burst {
					if _, err := g.Next(t.Context()); err != nil {
						t.Error(err)
					}
				}
				select {
				case <-time.After(every):
				case <-done:
					return
				}
			}
		})
	}
	return &drawing
}

func TestSteadyDemandNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		store := memory.NewSequences(&memory.Options{Fate: func(memory.Call) memory.Fate {
			f := memory.Fate{Delay: 25 * time.Millisecond, Back: 25 * time.Millisecond}
			if down.Load() {
				f.Err, f.Lost = errors.New("connection refused"), true
			}
			return f
		}})
		g := newGenerator(t, store, nil)
		done := make(chan struct{})
		drawing := steady(t, g, done)

		time.Sleep(time.Second)
		warm := g.Stats()
		time.Sleep(40 * time.Second)
		calm := g.Stats()
		if calm.Waits != warm.Waits {
			t.Errorf("%d calls waited for storage after the first second, want 0", calm.Waits-warm.Waits)
		}

		// An outage as long as the reserve promises, wherever it falls.
		for range 4 {
			down.Store(true)
			time.Sleep(10 * time.Second)
			down.Store(false)
			time.Sleep(17 * time.Second)
		}
		s := g.Stats()
		if s.Waits != calm.Waits {
			t.Errorf("%d calls waited for storage during outages of 10 s, want 0", s.Waits-calm.Waits)
		}
		if s.Failures == 0 {
			t.Error("no request met an outage: the test has shown nothing")
		}
		if s.Issued < 1_400_000 {
			t.Errorf("%d numbers issued: this was no load of 10,000 a second", s.Issued)
		}
		t.Logf("figure: calls that waited, 10,000/s, storage 50 ms away | %d | 0", calm.Waits-warm.Waits)
		t.Logf("figure: waits in four outages of 10 s at that load (and no error) | %d | 0", s.Waits-calm.Waits)
		close(done)
		drawing.Wait()
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A longer outage than the reserve bridges is an error at the caller's
// deadline that says what the store said, and is over by itself.
func TestLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		refused := errors.New("connection refused")
		store := memory.NewSequences(&memory.Options{Fate: func(memory.Call) memory.Fate {
			if down.Load() {
				return memory.Fate{Err: refused, Lost: true}
			}
			return memory.Fate{}
		}})
		g := newGenerator(t, store, nil)
		down.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := g.Next(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, refused) {
			t.Errorf("Next while the store is down: %v, want the deadline and what the store said", err)
		}
		impatient := newGenerator(t, store, &ids.Options{MaxWait: time.Second})
		if _, err := impatient.Next(t.Context()); !errors.Is(err, ids.ErrUnavailable) || !errors.Is(err, refused) {
			t.Errorf("Next with MaxWait: %v, want ErrUnavailable and what the store said", err)
		}
		impatient.Close(t.Context())
		down.Store(false)
		if n, err := g.Next(t.Context()); n != 1 || err != nil {
			t.Errorf("Next after the outage = %d, %v, want 1", n, err)
		}
		g.Close(t.Context())
	})
}
