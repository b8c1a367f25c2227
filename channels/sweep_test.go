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
	"kennel/internal/table"
)

// A deletion whose message was lost is restarted once, and its record is kept
// for 30 days.
func TestSweepRestartsDeletions(t *testing.T) {
	full, incarnation := filled(t, 1_500)
	full.fill(t, "other", 3)
	for _, stopAt := range []string{"marked", "fence removed", "deleting", "erased"} {
		synctest.Test(t, func(t *testing.T) {
			w := full.clone(nil)
			w.dieAt(stopAt, func(p *process) { p.Delete(p.Context(), "news", "") })
			w.queues = memory.NewQueues(nil) // the message is lost

			time.Sleep(14 * time.Minute)
			w.sweeps(t, "after 14 minutes", channels.Swept{})
			time.Sleep(2 * time.Minute)
			w.sweeps(t, "after 16 minutes", channels.Swept{Restarted: 1})
			w.sweeps(t, "again at once", channels.Swept{})
			w.plain(t)
			time.Sleep(29 * 24 * time.Hour)
			w.sweeps(t, "after 29 days", channels.Swept{})
			w.gone(t, "news", incarnation, 1_500)
			time.Sleep(2 * 24 * time.Hour)
			w.sweeps(t, "after 31 days", channels.Swept{Records: 1})
			if n := w.channels.Rows("news"); n != 0 {
				t.Errorf("%d rows of news are left", n)
			}
			p := w.start(nil, nil)
			fails(t, "delete", errorOf(p.Delete(t.Context(), "news", "")), channels.ErrNotFound)
			if d, err := p.Delete(t.Context(), "other", ""); err != nil || d.Deleted != 3 {
				t.Errorf("delete another channel: %+v, %v", d, err)
			}
		})
	}
}

// Corrupt rows, and deletions whose rows cannot be written and take the whole
// time of a sweep, do not delay other deletions.
func TestSweepContinuesAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		// Storage compares UTF-16, so it returns the last name before the one
		// before it.
		for _, name := range []string{"news0", "news1", "news2", "ｎｅｗｓ", "🐕"} {
			w.stall(name)
		}
		time.Sleep(time.Hour)
		p := w.with(hooked{
			Store: w.channels,
			queried: func(page table.Page) {
				slices.SortStableFunc(page.Rows, func(a, b table.Row) int {
					return slices.Compare(utf16.Encode([]rune(a.Partition)), utf16.Encode([]rune(b.Partition)))
				})
			},
			instead: func(ctx context.Context, writes []table.Write) (bool, error) {
				if !slices.Contains([]string{"news1", "🐕"}, writes[0].Row.Partition) {
					return false, nil
				}
				<-ctx.Done()
				return true, ctx.Err()
			},
		}, w.blogs, nil)
		failed := 0
		for from, calls := "", 0; calls == 0 || from != ""; calls++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			swept, err := p.Sweep(ctx, from)
			cancel()
			if err != nil {
				failed++
			}
			if from = swept.Next; calls == 5 {
				t.Fatal("the sweep does not finish")
			}
		}
		if failed != 2 {
			t.Errorf("%d sweeps failed, want 2", failed)
		}
		bad := table.Row{Partition: "a", Key: "x", Values: map[string]string{"v": "9", "state": "deleting"}}
		must(t, errorOf(w.channels.Submit(t.Context(), table.Write{Verb: table.Insert, Row: bad})))
		swept, err := w.start(nil, nil).Sweep(t.Context(), "")
		if swept.Restarted != 2 || !errors.Is(err, channels.ErrCorrupt) || !strings.Contains(err.Error(), `"9"`) {
			t.Errorf("swept %+v, %v, want the two deletions that could not be recorded, and %v", swept, err, channels.ErrCorrupt)
		}
	})
}

// A sweep that runs out of time continues where it stopped. A deletion that
// stalls in the meantime does not wait until all other rows are read.
func TestSweepInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 20 {
			w.dieAt("creating", func(p *process) { p.Create(p.Context(), fmt.Sprint("never", i), "ann") })
		}
		time.Sleep(2 * time.Hour)
		p := w.start(nil, nil)
		fences := 0
		sweep := func(from string) channels.Swept {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // less than stopEarly
			defer cancel()
			swept, err := p.Sweep(ctx, from)
			must(t, err)
			fences += swept.Fences
			return swept
		}
		first := sweep("invalid") // starts at the beginning
		if first.Fences == 0 || first.Next == "" {
			t.Fatalf("swept %+v, want some rows and a Next", first)
		}
		w.stall("stuck")
		time.Sleep(time.Hour)
		for _, from := range []string{first.Next, ""} { // by the same process, or by a new one
			if swept := sweep(from); swept.Restarted != 1 || swept.Fences == 0 {
				t.Errorf("swept %+v from %q, want the deletion and some of the rest", swept, from)
			}
			time.Sleep(time.Hour)
		}
		for i := range 250 {
			w.stall(fmt.Sprint("news", i))
		}
		time.Sleep(time.Hour)
		restarted, calls := 0, 0
		for from := ""; calls == 0 || from != ""; calls++ {
			swept := sweep(from)
			restarted, from = restarted+swept.Restarted, swept.Next
		}
		if restarted != 251 || fences != 20 || calls < 3 {
			t.Errorf("restarted %d in %d calls, %d fences; want 251 in some, and 20", restarted, calls, fences)
		}
	})
}

// The number of a sweep's requests does not depend on blogs, nor on channels
// and records that need no work.
func TestSweepRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.start(nil, nil)
		for i := range 1_000 {
			if i < 200 {
				w.fill(t, fmt.Sprint("live", i), 50)
			}
			must(t, last(p.Create(p.Context(), "news", "ann")))
			must(t, errorOf(p.Delete(p.Context(), "news", "")))
		}
		time.Sleep(24 * time.Hour)
		w.requests.Store(0)
		w.sweeps(t, "a day later", channels.Swept{})
		got := w.requests.Load()
		t.Logf("figure: requests of a sweep over 200 channels, 10,000 blogs and 1,000 records of deletions | %d | 2", got)
		if got != 2 {
			t.Errorf("%d requests, want one for each of the two queries", got)
		}
	})
}
