package channels_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

// A slow creator finishes after a sweep read its announcement, and before the
// sweep rules it out. The sweep must not rule it out any more, and the channel
// keeps its fence.
func TestSweepComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		wake := make(chan struct{})
		slow := w.startAt("fence created", func(*process) { <-wake })
		created := slow.creating()
		time.Sleep(2 * time.Hour)
		c := w.with(hooked{Store: w.channels, queried: func(page table.Page) {
			if len(page.Rows) > 0 {
				close(wake)
				must(t, <-created)
			}
		}}, w.blogs, nil)
		must(t, errorOf(c.Sweep(t.Context(), "")))
		slow.open(t, "news")
		w.settled(t, 1, 1)
	})
}

// A creator sleeps until a sweep gave up its creation, or was killed at any
// request while it did so. When it wakes, it creates a complete channel.
func TestSlowCreator(t *testing.T) {
	for _, tt := range []struct {
		step  string
		hours time.Duration // for which the machine sleeps
	}{{"fence created", 3}, {"fence created", 72}, {"creating", 72}} {
		for _, after := range []bool{false, true} {
			eachRequest(t, func(t *testing.T, k int64) bool {
				w := newWorld()
				p := w.startAt(tt.step, func(*process) { time.Sleep(tt.hours * time.Hour) })
				created := p.creating()
				time.Sleep(2 * time.Hour)
				kill := &storetest.Killer{N: k, After: after}
				sweeper := w.start(nil, kill)
				sweeper.Sweep(sweeper.Context(), "")
				struck := kill.Struck()
				for range tt.hours - 3 {
					time.Sleep(time.Hour)
					w.sweepAll(t)
				}
				if err := <-created; err != nil {
					t.Errorf("asleep at %q, %v: create: %v", tt.step, kill, err)
				}
				p.open(t, "news")
				if d, err := p.Deletion(t.Context(), "news", ""); !errors.Is(err, channels.ErrNotFound) {
					t.Errorf("asleep at %q, %v: deletion: %+v, %v; nothing was deleted", tt.step, kill, d, err)
				}
				w.settled(t, 1, 1)
				return struck
			})
		}
	}
}

// The clock of the machine that deleted the first channel of a name was ahead
// of the others. Deleting the second channel again, after the first call died,
// must not return the record of the first channel.
func TestDeleteAgainWithClocksApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		first := w.fill(t, "news", 3)
		p := w.start(nil, nil)
		must(t, errorOf(p.Delete(t.Context(), "news", "")))
		ahead := table.Row{Partition: "news", Key: first, Values: map[string]string{"startedAt": time.Now().Add(3 * time.Minute).Format(time.RFC3339Nano)}}
		must(t, errorOf(w.channels.Submit(t.Context(), table.Write{Verb: table.Merge, Row: ahead, If: table.AnyVersion})))
		second := w.fill(t, "news", 2)
		w.dieAt("marked", func(p *process) { p.Delete(p.Context(), "news", "") })

		d, err := p.Delete(p.Context(), "news", "")
		if err != nil || d.Incarnation != second {
			t.Errorf("Delete returned %+v, %v, want the deletion of %s", d, err, second)
		}
		if rows := w.blogs.Rows("news@" + second); rows > 2 {
			t.Errorf("%d rows are left: the fence still exists after Delete", rows)
		}
	})
}

// The first request that creates the channel fails and arrives later. In the
// meantime another channel gets the name, or ours exists and is deleted, and
// further requests fail. In each case our channel may have existed or may still
// be created, so Create returns ErrUnclear, and neither ErrRefused nor success.
func TestCreateMayTakeEffectLater(t *testing.T) {
	for _, tt := range []struct {
		name  string
		late  time.Duration
		owner string // of the other channel; "": ours is deleted
		fault memory.Fault
		from  error // requests have the fault after this answer …
		times int   // … was returned this many times
	}{
		{"not ruled out", 30 * time.Minute, "ann", memory.Fault{Err: errReset, Lost: true}, table.ErrExists, 1},
		{"refused after the other is deleted", 30 * time.Minute, "bob", memory.Fault{Err: channels.ErrRefused, Lost: true}, table.ErrExists, 1},
		{"refused after ours is deleted", 0, "", memory.Fault{Err: channels.ErrRefused, Lost: true}, channels.ErrChanged, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			armed := false // needs no lock: requests do not overlap
			submits, seen := 0, 0
			w.channels = memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(c memory.Call) memory.Fault {
				if c.Op != "Submit" || !armed {
					return memory.Fault{}
				}
				if submits++; submits == 2 { // after the announcement
					return memory.Fault{Err: errReset, After: tt.late}
				}
				if seen >= tt.times {
					return tt.fault
				}
				return memory.Fault{}
			}}})
			other := w.start(nil, nil)
			c := w.with(hooked{Store: w.channels, submitted: func(_ []table.Write, err error) {
				armed = false
				switch {
				case errors.Is(err, errReset) && tt.owner != "":
					other.Create(t.Context(), "news", tt.owner)
				case errors.Is(err, errReset), errors.Is(err, table.ErrExists) && tt.owner == "bob":
					other.Delete(t.Context(), "news", "")
				}
				if errors.Is(err, tt.from) {
					seen++
				}
				armed = true
			}}, w.blogs, nil)
			armed = true
			_, _, err := c.Create(t.Context(), "news", "ann")
			if armed = false; seen < tt.times {
				t.Errorf("%s: no request failed", tt.name)
			}
			fails(t, tt.name, err, channels.ErrUnclear)
			w.wait()
		})
	}
}

// lateSubmits makes the transactions with these numbers fail and arrive later.
func lateSubmits(late map[int64]time.Duration) func(memory.Call) memory.Fault {
	var submits atomic.Int64
	return func(c memory.Call) memory.Fault {
		if c.Op == "Submit" {
			if after := late[submits.Add(1)]; after > 0 {
				return memory.Fault{Err: errReset, After: after}
			}
		}
		return memory.Fault{}
	}
}

// The request that marks a channel may arrive when another channel has its
// name.
func TestLateMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, first := filled(t, 3)
		w := full.hit(lateSubmits(map[int64]time.Duration{1: time.Hour}))
		p := w.start(nil, nil)
		if d, err := p.Delete(p.Context(), "news", first); err != nil || d.State != channels.Done {
			t.Fatalf("delete: %+v, %v", d, err)
		}
		second := w.fill(t, "news", 2)
		w.wait()
		if ch, err := p.Read(p.Context(), "news"); err != nil || ch.Incarnation != second {
			t.Errorf("the new channel is %+v, %v, want %s", ch, err, second)
		}
		w.gone(t, "news", first, 3)
	})
}

// The requests that create a fence and a blog may arrive when channel and fence
// are deleted. Together they must not create any row.
func TestLateFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		late := lateSubmits(map[int64]time.Duration{1: 40 * time.Minute, 3: 50 * time.Minute}) // the first tries of both
		w.blogs = memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: late}})
		p := w.start(nil, nil)
		must(t, last(p.Create(p.Context(), "news", "ann")))
		fails(t, "post", errorOf(p.Post(p.Context(), "news", someDraft)), channels.ErrUnclear)
		d, err := p.Delete(p.Context(), "news", "")
		if err != nil || d.State != channels.Done || d.Deleted != 0 {
			t.Fatalf("delete: %+v, %v", d, err)
		}
		w.wait()
		time.Sleep(2 * time.Hour)
		w.sweepAll(t)
		if rows := w.blogs.Rows(""); rows != 0 {
			t.Errorf("late requests created %d rows", rows)
		}
	})
}
