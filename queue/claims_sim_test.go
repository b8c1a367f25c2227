package queue_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/chance"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

var errKilled = errors.New("the process is dead")

// claimKiller kills the process that sends the n-th request of all stores:
// before it or, with after, after it was executed. The next process lives.
type claimKiller struct {
	n     int64
	after bool
	sent  atomic.Int64
	dead  atomic.Bool
	end   context.CancelFunc
}

func (k *claimKiller) fault(string) func(memory.Call) memory.Fault {
	return func(memory.Call) memory.Fault {
		switch {
		case k.dead.Load():
			return memory.Fault{Err: errKilled, Lost: true}
		case k.sent.Add(1) == k.n:
			k.dead.Store(true)
			k.end()
			return memory.Fault{Err: errKilled, Lost: !k.after}
		}
		return memory.Fault{}
	}
}

// TestClaimsKilledAtEachRequest publishes two messages that are held four
// times, for five days each, become dead letters and are redriven. The process
// is killed before and after each request to queues, table and blobs, and
// another one carries on. Each message is done with its body, no claim is gone
// before, and in the end nothing is left.
func TestClaimsKilledAtEachRequest(t *testing.T) {
	plan := func(id string, n int) claimStep {
		switch {
		case n < 4:
			return claimHeld
		case n == 4:
			return claimDead
		default:
			return claimDone
		}
	}
	bodies := someBodies(rand.New(rand.NewPCG(1, 2)), 2)
	runs := 0
	for _, place := range []string{"table", "blob"} {
		for n := int64(1); ; n++ {
			struck := false
			for _, after := range []bool{false, true} {
				runs++
				synctest.Test(t, func(t *testing.T) {
					k := &claimKiller{n: n, after: after}
					w := newClaimWorld(t, k.fault, bodies)
					for i := 0; i == 0 || k.dead.Load(); i++ {
						k.dead.Store(false)
						ctx, end := context.WithCancel(t.Context())
						k.end = end
						w.liveAlone(ctx, w.claims(place), plan)
						end()
					}
					w.check()
					if w.copied == 0 {
						t.Error("no claim was copied: the messages were not held long enough")
					}
					struck = struck || k.sent.Load() >= n
				})
				if t.Failed() {
					t.Fatalf("killed at request %d, after it: %v", n, after)
				}
			}
			if !struck {
				break
			}
			n += rand.Int64N(int64(storetest.Scale(80, 1))) // a sample
		}
	}
	t.Logf("figure: claims left, lost, or gone too early, killed at each storage request (%d runs) | 0 | 0", runs)
}

// liveAlone publishes what is not published, works and sweeps each day until a
// month after the last message, or until ctx ends.
func (w *claimWorld) liveAlone(ctx context.Context, c *queue.Claims, plan func(string, int) claimStep) {
	for _, id := range slices.Sorted(maps.Keys(w.bodies)) {
		w.mu.Lock()
		put := w.put[id]
		w.mu.Unlock()
		if !put && w.publish(ctx, c, id) != nil {
			return
		}
	}
	for idle := 0; idle < 35 && ctx.Err() == nil; idle++ {
		for _, name := range []string{"work", "work-poison"} {
			if n, err := w.receive(ctx, c, name, plan); n > 0 || err != nil {
				idle = 0
			}
		}
		if n, err := c.Sweep(ctx, time.Now()); err != nil {
			w.note("swept %d: %v", n, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(24 * time.Hour):
		}
	}
}

// TestClaimSimulations: processes at random publish, work, hold, dead-letter,
// redrive and sweep, all at once; requests are lost, delayed, applied without an
// answer or long after it; processes die.
func TestClaimSimulations(t *testing.T) {
	n := storetest.Scale(4, 250)
	seeds := rand.New(rand.NewPCG(rand.Uint64(), 0))
	var gone, copied int
	for range n {
		seed := seeds.Uint64()
		if *queue.SeedToRun != 0 {
			seed = *queue.SeedToRun
		}
		synctest.Test(t, func(t *testing.T) {
			w := simulateClaims(t, seed)
			gone, copied = gone+w.gone, copied+w.copied
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		if *queue.SeedToRun != 0 {
			return
		}
	}
	t.Logf("figure: claims left, lost, or gone too early, in simulations with faults and kills (%d runs, %d copies of messages found their claim removed, %d claims copied) | 0 | 0", n, gone, copied)
}

func simulateClaims(t *testing.T, seed uint64) *claimWorld {
	source := chance.New(seed, "world", 0)
	bodies := someBodies(rand.New(rand.NewPCG(1, 2)), 3+source.Below(6))
	var calm atomic.Bool      // no more faults
	share := source.Below(15) // per cent
	fault := func(store string) func(memory.Call) memory.Fault {
		source := chance.New(seed, store, 0)
		return func(memory.Call) memory.Fault {
			if calm.Load() || source.Below(100) >= share {
				return memory.Fault{}
			}
			f := memory.Fault{Delay: time.Duration(source.Below(12)) * time.Second, Back: time.Duration(source.Below(12)) * time.Second}
			if source.Below(3) > 0 {
				f.Err = fmt.Errorf("connection reset by %s", store)
				f.Lost = source.Below(2) == 0
				if source.Below(3) == 0 {
					f.After = time.Duration(source.Below(600)) * time.Second
				}
			}
			return f
		}
	}
	w := newClaimWorld(t, fault, bodies)
	ctx, stop := context.WithCancel(t.Context())
	var processes sync.WaitGroup
	for id := range bodies { // each message has a publisher, which outlives its processes
		processes.Go(func() {
			source := chance.New(seed, "publisher of "+id, 0)
			c := w.claims([]string{"table", "blob"}[source.Below(2)])
			for {
				life, end := context.WithTimeout(ctx, time.Duration(1+source.Below(60))*time.Second)
				err := w.publish(life, c, id)
				end()
				if err == nil || ctx.Err() != nil {
					return
				}
			}
		})
	}
	for i := range 2 + source.Below(2) {
		processes.Go(func() {
			source := chance.New(seed, "worker", i)
			plan := func(id string, n int) claimStep {
				if n > 6 {
					return claimDone
				}
				return []claimStep{claimDone, claimDone, claimHeld, claimDead, claimFailed}[source.Below(5)]
			}
			for ctx.Err() == nil {
				c := w.claims([]string{"table", "blob"}[source.Below(2)])
				life, end := context.WithTimeout(ctx, time.Duration(1+source.Below(48))*time.Hour)
				for life.Err() == nil {
					for _, name := range []string{"work", "work-poison"} {
						_, _ = w.receive(life, c, name, plan)
					}
					if source.Below(10) == 0 {
						_, _ = c.Sweep(life, time.Now())
					}
					time.Sleep(time.Duration(1+source.Below(120)) * time.Minute)
				}
				end()
			}
		})
	}
	time.Sleep(45 * 24 * time.Hour)
	calm.Store(true)
	time.Sleep(30 * 24 * time.Hour)
	stop()
	processes.Wait()
	for _, wait := range []func(){w.queues.Wait, w.rows.Wait, w.blobs.Wait} {
		wait()
	}
	if _, err := w.claims("table").Sweep(t.Context(), time.Now()); err != nil {
		t.Error(err)
	}
	w.check()
	return w
}
