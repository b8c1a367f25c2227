package channels_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"kennel/channels"
	"kennel/internal/memory"
)

// sweepAll sweeps from beginning to end.
func (w *world) sweepAll(t *testing.T) (total channels.Swept) {
	t.Helper()
	p := w.start(nil, nil)
	for from := ""; ; {
		swept, err := p.Sweep(p.Context(), from)
		if err != nil {
			t.Errorf("sweep: %v", err)
		}
		total.Restarted += swept.Restarted
		total.Fences += swept.Fences
		total.Records += swept.Records
		if from = swept.Next; from == "" {
			return total
		}
	}
}

func TestSweepRestartsDeletions(t *testing.T) {
	full := newWorld()
	incarnation := full.fill(t, "news", 1_500)
	full.fill(t, "other", 3)
	for _, stopAt := range []string{channels.StepMarked, channels.StepFenceGone, channels.StepCounted, channels.StepErased} {
		synctest.Test(t, func(t *testing.T) {
			w := full.clone(nil)
			w.dieAt(stopAt, func(p *process) { p.Delete(p.Context(), "news", "") })
			w.queues = memory.NewQueues(nil) // the message is lost

			time.Sleep(14 * time.Minute)
			if swept := w.sweepAll(t); swept != (channels.Swept{}) {
				t.Errorf("after 14 minutes: swept %+v, want nothing", swept)
			}
			time.Sleep(2 * time.Minute)
			if swept := w.sweepAll(t); swept != (channels.Swept{Restarted: 1}) {
				t.Errorf("after 16 minutes: swept %+v, want one restart", swept)
			}
			if swept := w.sweepAll(t); swept != (channels.Swept{}) {
				t.Errorf("again at once: swept %+v, want nothing", swept)
			}
			w.host(t, func() *process { return w.start(nil, nil) })
			w.gone(t, "news", incarnation, 1_500)
			time.Sleep(24 * time.Hour)
			if swept := w.sweepAll(t); swept != (channels.Swept{}) {
				t.Errorf("a day later: swept %+v, want nothing", swept)
			}
			if _, err := w.start(nil, nil).Read(t.Context(), "other"); err != nil {
				t.Errorf("another channel: %v", err)
			}
		})
	}
}

// dieAt runs a process that is killed at that step.
func (w *world) dieAt(step string, do func(*process)) (died bool) {
	var p *process // of which Step needs to know
	p = w.start(&channels.Options{Step: func(name string) {
		if name == step {
			died = true
			p.Die()
		}
	}}, nil)
	do(p)
	return died
}

func TestSweepForgetsRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().clone(nil)
		incarnation := w.fill(t, "news", 3)
		p := w.start(nil, nil)
		if _, err := p.Delete(t.Context(), "news", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(29 * 24 * time.Hour)
		if swept := w.sweepAll(t); swept != (channels.Swept{}) {
			t.Errorf("after 29 days: swept %+v, want nothing", swept)
		}
		w.gone(t, "news", incarnation, 3)
		time.Sleep(2 * 24 * time.Hour)
		if swept := w.sweepAll(t); swept != (channels.Swept{Records: 1}) {
			t.Errorf("after 31 days: swept %+v, want one record", swept)
		}
		if n := w.channels.Rows("") + w.blogs.Rows(""); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		if d, err := p.Delete(t.Context(), "news", ""); !errors.Is(err, channels.ErrNotFound) {
			t.Errorf("delete: %+v, %v, want %v", d, err, channels.ErrNotFound)
		}
	})
}

// TestSweepInParts: a sweep that runs out of time goes on where it was.
func TestSweepInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().clone(nil)
		for i := range 250 {
			w.dieAt(channels.StepMarked, func(p *process) {
				p.Create(p.Context(), fmt.Sprint("news", i), "ann")
				p.Delete(p.Context(), fmt.Sprint("news", i), "")
			})
		}
		time.Sleep(time.Hour)
		p := w.start(nil, nil)
		total, calls := 0, 0
		for from := ""; calls == 0 || from != ""; calls++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // less than Sweep keeps in reserve
			swept, err := p.Sweep(ctx, from)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			total += swept.Restarted
			from = swept.Next
		}
		if total != 250 || calls < 3 {
			t.Errorf("restarted %d in %d calls, want 250 in some", total, calls)
		}
		if _, err := p.Sweep(t.Context(), "nonsense"); err != nil {
			t.Errorf("sweep from nonsense: %v", err)
		}
	})
}

// TestSweepPastWhatFails: deletions whose rows cannot be written, and which
// take all the time there is, do not keep the others from going on.
func TestSweepPastWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().clone(nil)
		// In storage, which compares UTF-16, the last comes before the one before
		// it.
		for _, name := range []string{"news0", "news1", "news2", "ｎｅｗｓ", "🐕"} {
			w.dieAt(channels.StepMarked, func(p *process) {
				p.Create(p.Context(), name, "ann")
				p.Delete(p.Context(), name, "")
			})
		}
		time.Sleep(time.Hour)
		asInStorage := meddling{Table: w.channels, queried: func(page channels.Page) {
			slices.SortStableFunc(page.Rows, func(a, b channels.Row) int {
				return slices.Compare(utf16.Encode([]rune(a.Partition)), utf16.Encode([]rune(b.Partition)))
			})
		}}
		p := channels.New(hanging{asInStorage, []string{"news1", "🐕"}}, w.blogs, memory.NewOutbox(w.queues, cleanupQueue), nil)
		failed := 0
		for from, calls := "", 0; calls == 0 || from != ""; calls++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			swept, err := p.Sweep(ctx, from)
			cancel()
			if err != nil {
				failed++
			}
			if from = swept.Next; calls == 5 {
				t.Fatal("the sweep comes to no end")
			}
		}
		if failed != 2 {
			t.Errorf("%d sweeps have failed, want 2", failed)
		}
		if swept := w.sweepAll(t); swept.Restarted != 2 {
			t.Errorf("swept %+v afterwards, want the two that could not be noted", swept)
		}
	})
}

// hanging is a table in which the rows of some partitions are never written.
type hanging struct {
	channels.Table
	partitions []string
}

func (h hanging) Submit(ctx context.Context, writes []channels.Write) ([]string, error) {
	if slices.Contains(h.partitions, writes[0].Row.Partition) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.Table.Submit(ctx, writes)
}

// TestSweepDeletionsFirst: a deletion that stands still does not wait until
// all the rest was seen.
func TestSweepDeletionsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().clone(nil)
		for i := range 20 {
			w.dieAt(channels.StepAnnounced, func(p *process) { p.Create(p.Context(), fmt.Sprint("never", i), "ann") })
		}
		time.Sleep(2 * time.Hour)
		p := w.start(nil, nil)
		sweep := func(from string) channels.Swept {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // less than Sweep keeps in reserve
			defer cancel()
			swept, err := p.Sweep(ctx, from)
			if err != nil {
				t.Fatal(err)
			}
			return swept
		}
		first := sweep("")
		if first.Fences == 0 || first.Next == "" {
			t.Fatalf("swept %+v, want some, and more to come", first)
		}
		w.dieAt(channels.StepMarked, func(p *process) {
			p.Create(p.Context(), "stuck", "ann")
			p.Delete(p.Context(), "stuck", "")
		})
		time.Sleep(time.Hour)
		for _, from := range []string{first.Next, ""} { // the same process, or a new one
			if swept := sweep(from); swept.Restarted != 1 || swept.Fences == 0 {
				t.Errorf("swept %+v from %q, want the deletion and some of the rest", swept, from)
			}
			time.Sleep(time.Hour)
		}
	})
}

// TestSweepRequests: what a sweep costs does not depend on the blogs, nor on
// the channels that are there.
func TestSweepRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().clone(nil)
		p := w.start(nil, nil)
		for i := range 1_200 {
			name := fmt.Sprint("news", i)
			p.Create(p.Context(), name, "ann")
			if i < 200 {
				w.fill(t, fmt.Sprint("large", i), 50)
			} else {
				p.Delete(p.Context(), name, "")
			}
		}
		time.Sleep(24 * time.Hour)
		w.requests.Store(0)
		if swept := w.sweepAll(t); swept != (channels.Swept{}) {
			t.Errorf("swept %+v, want nothing", swept)
		}
		got := w.requests.Load()
		t.Logf("figure: requests of a sweep over 400 channels, 10,000 blogs and 1,000 records of deletions | %d | 2", got)
		if got != 2 {
			t.Errorf("%d requests, want one for each of two lists", got)
		}
	})
}

// TestSweepGoesOn: one row that makes no sense does not keep the others.
func TestSweepGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld().clone(nil)
		bad := channels.Write{Verb: channels.Insert, Row: channels.Row{Partition: "a", Key: "x", Values: map[string]string{"v": "9", "state": "deleting"}}}
		if _, err := w.channels.Submit(t.Context(), []channels.Write{bad}); err != nil {
			t.Fatal(err)
		}
		w.dieAt(channels.StepMarked, func(p *process) {
			p.Create(p.Context(), "news", "ann")
			p.Delete(p.Context(), "news", "")
		})
		time.Sleep(time.Hour)
		p := w.start(nil, nil)
		swept, err := p.Sweep(p.Context(), "")
		if swept.Restarted != 1 || !errors.Is(err, channels.ErrCorrupt) || !strings.Contains(err.Error(), `"9"`) {
			t.Errorf("swept %+v, %v, want one restart and %v", swept, err, channels.ErrCorrupt)
		}
	})
}

// TestSteps kills the process at each named step, and what follows is right
// all the same.
func TestSteps(t *testing.T) {
	var reached []string
	full := newWorld()
	incarnation := full.fill(t, "news", 7_100)
	for _, step := range channels.Steps() {
		synctest.Test(t, func(t *testing.T) {
			w := full.clone(&memory.TableOptions{Options: memory.Options{Fate: (&memory.Line{RoundTrip: time.Millisecond}).Fate}})
			var died bool
			start := func() (p *process) {
				p = w.start(&channels.Options{AcceptFor: 20 * time.Millisecond, HandleFor: time.Millisecond, Step: func(name string) {
					if name == step && !died {
						died = true
						p.Die()
					}
				}}, nil)
				return p
			}
			p := start()
			p.Create(p.Context(), "fresh", "ann")
			p = start()
			p.Delete(p.Context(), "fresh", "")
			p = start()
			p.Delete(p.Context(), "news", "")
			w.host(t, start)
			w.dieAt(channels.StepMarked, func(p *process) {
				p.Create(p.Context(), "lost", "ann")
				p.Delete(p.Context(), "lost", "")
			})
			w.dieAt(channels.StepFencePut, func(p *process) { p.Create(p.Context(), "never", "ann") })
			w.queues = memory.NewQueues(nil)
			for range 2 {
				time.Sleep(2 * time.Hour)
				p = start()
				p.Sweep(p.Context(), "")
				w.host(t, start)
			}
			w.sweepAll(t)
			if died {
				reached = append(reached, step)
			}
			p = w.start(nil, nil)
			for _, name := range []string{"news", "fresh"} {
				if _, err := p.Delete(p.Context(), name, ""); err != nil && !errors.Is(err, channels.ErrNotFound) {
					t.Errorf("%s: %v", name, err)
				}
			}
			w.host(t, start)
			w.gone(t, "news", incarnation, 7_100)
			if rows := w.blogs.Rows(""); rows != 0 {
				t.Errorf("killed at %s: %d rows are left", step, rows)
			}
		})
	}
	if !slices.Equal(reached, channels.Steps()) {
		t.Errorf("reached the steps %v, want all of %v", reached, channels.Steps())
	}
}

// TestLateMark: the request that marks a channel may arrive when its name
// stands for another one.
func TestLateMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		first := w.fill(t, "news", 3)
		late := false
		w.channels = w.channels.Clone(&memory.TableOptions{Options: memory.Options{Fate: func(c memory.Call) memory.Fate {
			if c.Op == "Submit" && !late {
				late = true
				return memory.Fate{Err: errReset, After: time.Hour}
			}
			return memory.Fate{}
		}}})
		p := w.start(nil, nil)
		if d, err := p.Delete(p.Context(), "news", first); err != nil || d.State != channels.Done {
			t.Fatalf("delete: %+v, %v", d, err)
		}
		second := w.fill(t, "news", 2)
		w.wait()
		if ch, err := p.Read(p.Context(), "news"); err != nil || ch.Incarnation != second {
			t.Errorf("the new channel: %+v, %v, want %s", ch, err, second)
		}
		w.gone(t, "news", first, 3)
	})
}
