package ids_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/chance"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// TestNoFalseAlarm: without a restore no process refuses, whatever the others
// report. 18 to 57 processes draw in bursts, take numbers back from their
// callers, return their numbers in the pauses between bursts, and are killed with
// rows that are up to 30 s old; and the sequence is raised. In a pause the newest
// mark is restored, which undoes nothing and looks like a restore. No number comes
// twice.
func TestNoFalseAlarm(t *testing.T) {
	t.Parallel()
	if *seedToRun != 0 {
		synctest.Test(t, func(t *testing.T) { noFalseAlarm(t, *seedToRun) })
		return
	}
	base, ran, returned, forks := rand.Uint64(), 0, int64(0), 0
	for ; ran < storetest.Scale(10, 100) && !t.Failed(); ran++ {
		seed := base + uint64(ran)
		synctest.Test(t, func(t *testing.T) {
			r, f := noFalseAlarm(t, seed)
			returned, forks = returned+r, forks+f
			if t.Failed() {
				t.Logf("seed %d failed; repeat it with -run TestNoFalseAlarm -seed %d", seed, seed)
			}
		})
	}
	if returned == 0 || forks < ran {
		t.Errorf("%d numbers went back and %d copies were moved on: too little for a meaningful test", returned, forks)
	}
}

// noFalseAlarm returns how many numbers went back, and how many of the last copies
// were moved on.
func noFalseAlarm(t *testing.T, seed uint64) (returned int64, forks int) {
	c := chance.New(seed, "alarm", 0)
	store := memory.NewSequences(nil)
	var table rows
	loans := newLending(newTally(t), c)
	started := 0
	type process struct {
		*ids.Set
		id    int
		end   func() // of its Run
		rowAt time.Time
	}
	start := func() *process {
		started++
		set := newSet(t, store, &ids.Options{Reported: table.of(started)})
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { set.Run(ctx) })
		return &process{set, started, func() { end(); running.Wait() }, time.Now().Add(c.UpTo(5 * time.Second))}
	}
	kill := func(p *process) {
		p.end()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.Close(ctx)
	}
	all := make([]*process, 18+c.Below(40))
	for i := range all {
		all[i] = start()
	}
	for second := range 600 {
		draws := c.Below(8)
		if second/100%2 == 1 {
			draws = c.Below(40) / 39
			if synctest.Wait(); second%45 == 0 {
				newest, _ := store.Get("orders")
				store.Restore("orders", newest)
			}
		}
		for range draws {
			i := c.Below(len(all))
			switch {
			case c.Below(40) == 0:
				kill(all[i])
				all[i] = start()
			case c.Below(400) == 0 && second > 10:
				if _, err := ids.Raise(t.Context(), store, "orders", stored(t, store)+int64(c.Below(1000)), false); err != nil {
					t.Fatal(err)
				}
			default:
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				if err := loans.draw(ctx, all[i].id, all[i].Set, 1+c.Below(100)); err != nil {
					t.Errorf("after %d s process %d drew no number: %v", second, all[i].id, err)
				}
				cancel()
			}
			if c.Below(2) == 0 {
				loans.giveBack()
			}
		}
		for _, p := range all {
			if now := time.Now(); !now.Before(p.rowAt) {
				if s, ok := p.StatsOf("orders"); ok {
					table.report(p.id, s)
					returned += s.Returned
				}
				p.rowAt = now.Add(24*time.Second + c.UpTo(6*time.Second))
			}
		}
		time.Sleep(time.Second)
	}
	for _, p := range all {
		kill(p)
	}
	if loans.reused == 0 {
		t.Errorf("none of %d numbers that callers gave back was issued again", loans.takenBack)
	}
	newest, _ := store.Get("orders")
	return returned, len(strings.Fields(ids.MarkOf(newest).Forks))
}
