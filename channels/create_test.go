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
	"kennel/internal/storetest"
)

func TestSweepClearsFences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().clone(nil)
		w.dieAt(channels.StepFencePut, func(p *process) { p.Create(p.Context(), "news", "ann") })
		w.fill(t, "quiet", 0)
		w.fill(t, "busy", 2)
		p := w.start(nil, nil)
		if _, err := p.Post(t.Context(), "busy", channels.Draft{Title: "t", UserID: "u"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Minute)
		if swept := w.sweepAll(t); swept != (channels.Swept{}) || w.blogs.Rows("") != 1+1+4 {
			t.Errorf("after 59 minutes: swept %+v, %d rows", swept, w.blogs.Rows(""))
		}
		time.Sleep(2 * time.Minute)
		if swept := w.sweepAll(t); swept != (channels.Swept{Fences: 1}) || w.blogs.Rows("") != 1+4 {
			t.Errorf("after an hour: swept %+v, %d rows; want the one fence gone", swept, w.blogs.Rows(""))
		}
		w.requests.Store(0)
		if swept := w.sweepAll(t); swept != (channels.Swept{}) {
			t.Errorf("again: swept %+v, want nothing", swept)
		}
		if again := w.requests.Load(); again != 2 {
			t.Errorf("%d requests for looking at what was seen before, want one for each of two lists", again)
		}
		time.Sleep(24 * time.Hour)
		if swept := w.sweepAll(t); swept != (channels.Swept{Records: 1}) || w.channels.Rows("") != 4 {
			t.Errorf("a day later: swept %+v, %d rows; want four of two channels", swept, w.channels.Rows(""))
		}
		for _, name := range []string{"quiet", "busy", "news"} {
			if _, _, err := p.Create(t.Context(), name, "ann"); err != nil {
				t.Error(err)
			}
			if _, err := p.Post(t.Context(), name, channels.Draft{Title: "t", UserID: "u"}); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestSlowCreator: a creator that wakes up after the sweep has given its
// creation up, or has died over that at any request, does not get a channel
// without a fence.
func TestSlowCreator(t *testing.T) {
	for k, struck := int64(1), true; struck; k++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld().clone(nil)
				p := w.start(at(channels.StepFencePut, func() { time.Sleep(3 * time.Hour) }), nil) // the machine was asleep
				created := p.creating()
				time.Sleep(2 * time.Hour)
				kill := &storetest.Killer{N: k, After: after}
				sweeper := w.start(nil, kill)
				sweeper.Sweep(sweeper.Context(), "")
				struck = kill.Struck()
				if err := <-created; err != nil {
					t.Errorf("%v: create: %v", kill, err)
				}
				if _, err := p.Post(p.Context(), "news", channels.Draft{Title: "t", UserID: "u"}); err != nil {
					t.Errorf("%v: post: %v", kill, err)
				}
				if d, err := p.Deletion(t.Context(), "news", ""); !errors.Is(err, channels.ErrNotFound) {
					t.Errorf("%v: deletion: %+v, %v; nothing was deleted", kill, d, err)
				}
				w.settled(t, 1, 1)
			})
		}
	}
}

// settled checks that nothing is left but this many channels and blogs, after
// all that is late and a sweep now and then.
func (w *world) settled(t *testing.T, channels, blogs int) {
	t.Helper()
	w.wait()
	for range 3 {
		time.Sleep(26 * time.Hour)
		w.sweepAll(t)
	}
	if got, want := w.channels.Rows(""), 2*channels; got != want {
		t.Errorf("%d rows are left among the channels, want %d", got, want)
	}
	if got, want := w.blogs.Rows(""), channels+blogs; got != want {
		t.Errorf("%d rows are left among the blogs, want %d", got, want)
	}
}

// TestLateFence: the request that puts up a fence may arrive when channel and
// fence are gone, and so may that of a blog. Together they must not bring
// anything back.
func TestLateFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var submits atomic.Int64
		late := map[int64]time.Duration{1: 40 * time.Minute, 3: 50 * time.Minute} // the first tries of both
		w := newWorld()
		w.blogs = memory.NewTable(&memory.TableOptions{Options: memory.Options{Fate: func(c memory.Call) memory.Fate {
			if c.Op != "Submit" {
				return memory.Fate{}
			}
			if after, ok := late[submits.Add(1)]; ok {
				return memory.Fate{Err: errReset, After: after}
			}
			return memory.Fate{}
		}}})
		p := w.start(nil, nil)
		if _, _, err := p.Create(p.Context(), "news", "ann"); err != nil {
			t.Fatal(err)
		}
		if blog, err := p.Post(p.Context(), "news", channels.Draft{Title: "t", UserID: "u"}); !errors.Is(err, errReset) {
			t.Fatalf("post: %+v, %v, want %v", blog, err, errReset)
		}
		d, err := p.Delete(p.Context(), "news", "")
		if err != nil || d.State != channels.Done || d.Deleted != 0 {
			t.Fatalf("delete: %+v, %v", d, err)
		}
		w.wait()
		time.Sleep(2 * time.Hour)
		w.sweepAll(t)
		if rows := w.blogs.Rows(""); rows != 0 {
			t.Errorf("%d rows came back", rows)
		}
	})
}

// TestVeryLateFence: a fence that arrives when its creation was given up is
// taken away, too.
func TestVeryLateFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.blogs = memory.NewTable(&memory.TableOptions{Options: memory.Options{Fate: func(c memory.Call) memory.Fate {
			if c.Op == "Submit" && c.N == 1 {
				return memory.Fate{Err: errReset, After: 4 * time.Hour}
			}
			return memory.Fate{}
		}}})
		p := w.start(nil, nil)
		if _, _, err := p.Create(p.Context(), "news", "ann"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if swept := w.sweepAll(t); swept != (channels.Swept{Fences: 1}) {
			t.Errorf("swept %+v, want one creation given up", swept)
		}
		w.settled(t, 1, 0)
	})
}

// TestCreatorMeetsEveryFault: wherever a creation is cut off, or whatever
// becomes of one of its requests, there is a channel that takes blogs, or none,
// and in the end nothing that belongs to nobody.
func TestCreatorMeetsEveryFault(t *testing.T) {
	type run struct {
		name string
		fate memory.Fate
		kill *storetest.Killer
	}
	for k, struck := int64(1), true; struck; k++ {
		runs := []run{
			{name: "killed before", kill: &storetest.Killer{N: k}},
			{name: "killed after", kill: &storetest.Killer{N: k, After: true}},
			{name: "done when all was given up", fate: memory.Fate{Err: errReset, After: 5 * time.Hour}},
		}
		for _, fault := range faults {
			runs = append(runs, run{name: fault.name, fate: fault.fate})
		}
		for _, r := range runs {
			synctest.Test(t, func(t *testing.T) {
				o, sent := strike(k, r.fate)
				w := newWorld().hit(o)
				p := w.start(nil, r.kill)
				_, _, err := p.Create(p.Context(), "news", "ann")
				if r.kill == nil && err != nil {
					t.Errorf("create: %v", err)
				}
				struck = sent.Load() >= k // before it was over
				q := w.start(nil, nil)
				_, read := q.Read(q.Context(), "news")
				_, posted := q.Post(q.Context(), "news", channels.Draft{Title: "t", UserID: "u"})
				if (read == nil) != (posted == nil) {
					t.Errorf("read: %v, post: %v", read, posted)
				}
				time.Sleep(2 * time.Hour)
				w.sweepAll(t)
				if read == nil {
					w.settled(t, 1, 1)
				} else {
					w.settled(t, 0, 0)
				}
				if _, _, err := q.Create(q.Context(), "news", "ann"); err != nil {
					t.Errorf("create again: %v", err)
				}
				if _, err := q.Post(q.Context(), "news", channels.Draft{Title: "t", UserID: "u"}); err != nil {
					t.Errorf("post: %v", err)
				}
				if t.Failed() {
					t.Fatalf("request %d %s", k, r.name)
				}
			})
		}
		if t.Failed() || k > 20 {
			return
		}
	}
}

// TestCreateAmidOthers: somebody else's channel is in the way at the one
// moment, and gone at the next. Nobody has stated a condition, so nobody hears
// that one failed.
func TestCreateAmidOthers(t *testing.T) {
	for times, want := range []bool{0: true, 1: true, 2: true, 3: false} {
		w := newWorld()
		other := w.start(nil, nil)
		left := times
		c := channels.New(crossed{w.channels, func() { other.Delete(t.Context(), "news", "") }}, w.blogs,
			memory.NewOutbox(w.queues, cleanupQueue), &channels.Options{Step: func(name string) {
				if name == channels.StepFencePut && left > 0 {
					left--
					other.Create(t.Context(), "news", "bob")
				}
			}})
		ch, created, err := c.Create(t.Context(), "news", "ann")
		if created != want || (err == nil) != want || errors.Is(err, channels.ErrChanged) || errors.Is(err, channels.ErrExists) {
			t.Errorf("with %d others: %+v, %v, %v, want it to be created: %v", times, ch, created, err, want)
		}
		there := 0
		if want {
			there = 1
		}
		if inChannels, inBlogs := w.channels.Rows(""), w.blogs.Rows(""); inChannels != 2*there+times || inBlogs != there {
			t.Errorf("with %d others: %d and %d rows are left, want their records and the channel", times, inChannels, inBlogs)
		}
	}
}

// crossed is a table in which things change right after they were in the way.
type crossed struct {
	channels.Table
	change func()
}

func (x crossed) Submit(ctx context.Context, writes []channels.Write) ([]string, error) {
	versions, err := x.Table.Submit(ctx, writes)
	if errors.Is(err, channels.ErrExists) {
		x.change()
	}
	return versions, err
}
