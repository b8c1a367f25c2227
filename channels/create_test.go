package channels_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// New returns an error for a missing store or an invalid option.
func TestNew(t *testing.T) {
	store, outbox := memory.NewTable(nil), memory.NewOutbox(memory.NewQueues(nil), cleanupQueue)
	for want, err := range map[string]error{
		"new channels: new table":         errorOf(channels.New(nil, store, outbox, nil)),
		"new table: the store is nil":     errorOf(channels.New(store, nil, outbox, nil)),
		"the outbox is nil":               errorOf(channels.New(store, store, nil, nil)),
		"channels.Options.MessageDelay ":  errorOf(channels.New(store, store, outbox, &channels.Options{MessageDelay: -1})),
		"channels.Options.HandleFor is ":  errorOf(channels.New(store, store, outbox, &channels.Options{HandleFor: -1})),
		"channels.Options.StalledAfter ":  errorOf(channels.New(store, store, outbox, &channels.Options{StalledAfter: -1})),
		"channels.Options.OrphanAfter is": errorOf(channels.New(store, store, outbox, &channels.Options{OrphanAfter: -1})),
		"channels.Options.Parallel is -1": errorOf(channels.New(store, store, outbox, &channels.Options{Parallel: -1})),
		"channels.Options.KeepRecords is": errorOf(channels.New(store, store, outbox, &channels.Options{KeepRecords: time.Hour})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// A creation that was never finished is given up after an hour, and its row is
// removed a day later. Other channels are not changed.
func TestSweepClearsFences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.dieAt("fence created", func(p *process) { p.Create(p.Context(), "news", "ann") })
		w.fill(t, "quiet", 0)
		w.fill(t, "busy", 3)
		time.Sleep(59 * time.Minute)
		w.sweeps(t, "after 59 minutes", channels.Swept{})
		time.Sleep(2 * time.Minute)
		w.sweeps(t, "after an hour", channels.Swept{Fences: 1})
		w.sweeps(t, "again", channels.Swept{})
		time.Sleep(24 * time.Hour)
		w.sweeps(t, "a day later", channels.Swept{Records: 1})
		w.settled(t, 2, 3)
		p := w.start(nil, nil)
		for _, name := range []string{"quiet", "busy", "news"} {
			must(t, last(p.Create(t.Context(), name, "ann")))
			p.open(t, name)
		}
	})
}

// Wherever a creation is killed, and whichever fault one of its requests has,
// there is a complete channel or none, and finally no row without a channel.
func TestFaultAtEachRequestOfCreate(t *testing.T) {
	late := memory.Fault{Err: errReset, After: 5 * time.Hour} // after the creation was given up
	all := []memory.Fault{{}, {}, late}                       // for the first two the process is killed
	for _, fault := range faults {
		all = append(all, fault.Fault)
	}
	for i, fault := range all {
		eachRequest(t, func(t *testing.T, k int64) bool {
			inject, sent := strike(k, fault)
			w := newWorld().hit(inject)
			var kill *storetest.Killer
			if i < 2 {
				kill = &storetest.Killer{N: k, After: i == 1}
			}
			p := w.start(nil, kill)
			_, _, err := p.Create(p.Context(), "news", "ann")
			if kill == nil && err != nil {
				t.Errorf("create: %v", err)
			}
			struck := sent.Load() >= k // before the creation was finished
			q := w.start(nil, nil)
			_, read := q.Read(q.Context(), "news")
			_, posted := q.Post(q.Context(), "news", someDraft)
			if (read == nil) != (posted == nil) {
				t.Errorf("read: %v, post: %v", read, posted)
			}
			time.Sleep(2 * time.Hour)
			w.sweepAll(t)
			n := 0
			if read == nil {
				n = 1
			}
			w.settled(t, n, n)
			if _, _, err := q.Create(q.Context(), "news", "ann"); err != nil {
				t.Errorf("create again: %v", err)
			}
			q.open(t, "news")
			if t.Failed() {
				t.Errorf("fault %d", i)
			}
			return struck
		})
	}
}
