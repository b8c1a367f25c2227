package ids_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
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
	all := storetest.Simulate(t, storetest.Scale(4, 40), noFalseAlarm)
	all.Want("numbers that went back", 0)
	all.Want("last copies that were moved on", 1)
}

func noFalseAlarm(t *storetest.Simulation) {
	c := t.Chance("alarm", 0)
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
					t.Count("numbers that went back", int(s.Returned))
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
	t.Count("last copies that were moved on", len(strings.Fields(ids.MarkOf(newest).Forks)))
}
