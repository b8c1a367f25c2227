package queue_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

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
		runs += storetest.KillAtEachRequest(t, storetest.Scale(40, 1), func(t *testing.T, kill *storetest.Killer) {
			w := newClaimWorld(t, func(string) func(memory.Call) memory.Fault { return nil }, bodies)
			for w.process = storetest.NewProcess(kill); ; w.process = storetest.NewProcess(nil) {
				w.liveAlone(w.process.Context(), w.claims(place), plan)
				if !w.process.Dead() {
					break
				}
			}
			w.check()
			if w.copied == 0 {
				t.Error("no claim was copied: the messages were not held long enough")
			}
		})
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
	t.Parallel()
	all := storetest.Simulate(t, storetest.Scale(4, 250), func(run *storetest.Simulation) {
		w := simulateClaims(run)
		run.Count("copies", w.gone)
		run.Count("claims copied", w.copied)
	})
	t.Logf("figure: claims left, lost, or gone too early, in simulations with faults and kills (%d runs, %d copies of messages found their claim removed, %d claims copied) | 0 | 0",
		all.Runs, all.Of("copies"), all.Of("claims copied"))
}

func simulateClaims(t *storetest.Simulation) *claimWorld {
	source := t.Chance("world", 0)
	bodies := someBodies(rand.New(rand.NewPCG(1, 2)), 3+source.Below(6))
	var calm atomic.Bool      // no more faults
	share := source.Below(15) // per cent
	fault := func(store string) func(memory.Call) memory.Fault {
		source := t.Chance(store, 0)
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
			source := t.Chance("publisher of "+id, 0)
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
			source := t.Chance("worker", i)
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
