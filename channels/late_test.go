package channels_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
)

// meddling is a table at which others do something between an answer and
// whoever gets it.
type meddling struct {
	channels.Table
	submitted func(err error)
	queried   func(channels.Page)
}

func (m meddling) Submit(ctx context.Context, writes []channels.Write) ([]string, error) {
	versions, err := m.Table.Submit(ctx, writes)
	if m.submitted != nil {
		m.submitted(err)
	}
	return versions, err
}

func (m meddling) Query(ctx context.Context, q channels.Query) (channels.Page, error) {
	page, err := m.Table.Query(ctx, q)
	if m.queried != nil {
		m.queried(page)
	}
	return page, err
}

// A creator that was slow finishes after the sweep has read its announcement,
// and before the sweep rules it out: that must come too late, and the channel
// keep its fence.
func TestSweepComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().clone(nil)
		wake := make(chan struct{})
		slow := w.start(at(channels.StepFencePut, func() { <-wake }), nil)
		created := slow.creating()
		time.Sleep(2 * time.Hour)
		table := meddling{Table: w.channels, queried: func(page channels.Page) {
			if len(page.Rows) > 0 {
				close(wake)
				if err := <-created; err != nil {
					t.Error(err)
				}
			}
		}}
		c := channels.New(table, w.blogs, memory.NewOutbox(w.queues, cleanupQueue), nil)
		if _, err := c.Sweep(t.Context(), ""); err != nil {
			t.Error(err)
		}
		if _, err := slow.Post(slow.Context(), "news", channels.Draft{Title: "t", UserID: "u"}); err != nil {
			t.Errorf("the channel was created, and takes no blogs: %v", err)
		}
		w.settled(t, 1, 1)
	})
}

// The machine that deleted the first channel of a name was ahead of the others.
// Who deletes the second one again, because the first call has died, must not be
// answered with the record of the first.
func TestDeleteAgainWithClocksApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().clone(nil)
		first := w.fill(t, "news", 3)
		p := w.start(nil, nil)
		if _, err := p.Delete(t.Context(), "news", ""); err != nil {
			t.Fatal(err)
		}
		row, err := w.channels.Get(t.Context(), "news", first)
		if err != nil {
			t.Fatal(err)
		}
		began, err := time.Parse(time.RFC3339Nano, row.Values["startedAt"])
		if err != nil {
			t.Fatal(err)
		}
		row.Values["startedAt"] = began.Add(3 * time.Minute).Format(time.RFC3339Nano)
		if _, err := w.channels.Submit(t.Context(), []channels.Write{{Verb: channels.Replace, Row: row, If: channels.AnyVersion}}); err != nil {
			t.Fatal(err)
		}
		second := w.fill(t, "news", 2)
		w.dieAt(channels.StepMarked, func(p *process) { p.Delete(p.Context(), "news", "") })

		d, err := p.Delete(p.Context(), "news", "")
		if err != nil || d.Incarnation != second {
			t.Errorf("answered with %+v, %v, want the deletion of %s", d, err, second)
		}
		if rows := w.blogs.Rows("news@" + second); rows > 2 {
			t.Errorf("%d rows are left: the fence still stands, and Delete has returned", rows)
		}
	})
}

// straggling is a world in which the first try to make a channel hears nothing
// but an error and arrives that much later, and whose creator tells of each
// answer to its writes. Once calm, nothing more goes wrong.
func straggling(late time.Duration, fate func(submit int64) memory.Fate) (w *world, creator func(submitted func(error)) *channels.Channels, calm func()) {
	w = newWorld()
	var counting atomic.Bool
	var submits atomic.Int64
	w.channels = memory.NewTable(&memory.TableOptions{Options: memory.Options{Fate: func(c memory.Call) memory.Fate {
		if c.Op != "Submit" || !counting.Load() {
			return memory.Fate{}
		}
		n := submits.Add(1)
		if n == 2 { // after the announcement
			return memory.Fate{Err: errReset, After: late}
		}
		return fate(n)
	}}})
	return w, func(submitted func(error)) *channels.Channels {
		counting.Store(true)
		return channels.New(meddling{Table: w.channels, submitted: func(err error) {
			counting.Store(false)
			submitted(err)
			counting.Store(true)
		}}, w.blogs, memory.NewOutbox(w.queues, cleanupQueue), nil)
	}, func() { counting.Store(false) }
}

// Somebody else's channel is in the way, and our own request still under way
// without being ruled out: it may come when that channel is gone, so the answer
// cannot be that all is well. When it comes it is a channel like any other.
func TestCreateThatMayStillCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, creator, calm := straggling(30*time.Minute, func(submit int64) memory.Fate {
			if submit >= 4 { // all that would rule it out
				return memory.Fate{Err: errReset, Lost: true}
			}
			return memory.Fate{}
		})
		other := w.start(nil, nil)
		c := creator(func(err error) {
			if errors.Is(err, errReset) {
				other.Create(t.Context(), "news", "ann")
			}
		})
		if ch, _, err := c.Create(t.Context(), "news", "ann"); err == nil || errors.Is(err, channels.ErrRefused) {
			t.Errorf("answered %+v, %v, though a request is under way", ch, err)
		}
		calm()
		if _, err := other.Delete(t.Context(), "news", ""); err != nil {
			t.Fatal(err)
		}
		w.wait()
		if _, err := other.Read(t.Context(), "news"); err != nil {
			t.Fatalf("the late request did not come: %v", err)
		}
		if _, err := other.Post(t.Context(), "news", channels.Draft{Title: "t", UserID: "u"}); err != nil {
			t.Errorf("the channel that came late takes no blogs: %v", err)
		}
	})
}

// A refusal says that nothing was changed. Not so after a request that may
// still come.
func TestRefusedAfterAStraggler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		w, creator, _ := straggling(30*time.Minute, func(int64) memory.Fate {
			if refuse.Load() {
				return memory.Fate{Err: channels.ErrRefused, Lost: true}
			}
			return memory.Fate{}
		})
		other := w.start(nil, nil)
		c := creator(func(err error) {
			switch {
			case errors.Is(err, errReset):
				other.Create(t.Context(), "news", "bob")
			case errors.Is(err, channels.ErrExists):
				other.Delete(t.Context(), "news", "")
				refuse.Store(true)
			}
		})
		if _, _, err := c.Create(t.Context(), "news", "ann"); err == nil || errors.Is(err, channels.ErrRefused) {
			t.Errorf("answered %v, though a request is under way", err)
		}
		w.wait()
	})
}

// Nor after a channel that had come, and that somebody has deleted meanwhile.
func TestRefusedAfterOneThatCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := 0 // how often the creator has heard that it came too late
		w, creator, _ := straggling(0, func(int64) memory.Fate {
			if late == 2 {
				return memory.Fate{Err: channels.ErrRefused, Lost: true}
			}
			return memory.Fate{}
		})
		other := w.start(nil, nil)
		c := creator(func(err error) {
			switch {
			case errors.Is(err, errReset):
				other.Delete(t.Context(), "news", "")
			case errors.Is(err, channels.ErrChanged):
				late++
			}
		})
		_, _, err := c.Create(t.Context(), "news", "ann")
		if err == nil || errors.Is(err, channels.ErrRefused) || late != 2 {
			t.Errorf("answered %v after %d times, though there was a channel for a moment", err, late)
		}
	})
}

// A creator that slept for three days, anywhere, either makes a channel that is
// whole, or leaves nothing that is not cleared up.
func TestCreatorSleepsForDays(t *testing.T) {
	for _, step := range []string{channels.StepAnnounced, channels.StepFencePut} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld().clone(nil)
				p := w.start(at(step, func() { time.Sleep(72 * time.Hour) }), nil)
				created := p.creating()
				for range 80 {
					time.Sleep(time.Hour)
					w.sweepAll(t)
				}
				if err := <-created; err != nil {
					t.Error(err)
				}
				w.settled(t, 1, 0)
			})
		})
	}
}

// The record of a deletion is not that of a channel that lives.
func TestNoDeletionOfTheLiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().clone(nil)
		incarnation := w.fill(t, "news", 1)
		p := w.start(nil, nil)
		if d, err := p.Deletion(t.Context(), "news", incarnation); !errors.Is(err, channels.ErrNotFound) {
			t.Errorf("got %+v, %v, want ErrNotFound", d, err)
		}
	})
}
