package work

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/table"
	"kennel/work/internal/format"
	"kennel/work/internal/sweep"
)

// TestRowsRefused: a row of results that storage refuses as too large becomes
// smaller ones. Items for which no row is small enough fail, with the size.
func TestRowsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ items, accepted, failed int }{
		{LargeParcel, 150, 0},
		{LargeParcel, 0, LargeParcel},
		{1, 0, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, nil, 0)
			in := s.start(nil, nil)
			refused := 0
			var mu sync.Mutex
			s.refuse = func(w table.Write) error {
				done, _ := strconv.Atoi(w.Row.Values["done"])
				if strings.HasPrefix(w.Row.Key, format.ResultKey) && done > test.accepted {
					mu.Lock()
					defer mu.Unlock()
					refused++
					return fmt.Errorf("%w: RequestBodyTooLarge", table.ErrRowSize)
				}
				return nil
			}
			s.copies = func() int { return 1 } // errors of messages are expected
			var items []string
			for i := range test.items {
				items = append(items, item(i, ""))
			}
			d, err := in.submit(t.Context(), items, LargeParcel)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Hour)
			defer stop()
			var running sync.WaitGroup
			running.Go(func() { in.work(ctx) })
			ended := in.finished(ctx, d.ID)
			stop()
			running.Wait()
			b, err := in.Get(timed(t, time.Minute), d.ID)
			if err != nil || !ended || b.State != Done || b.Failed != test.failed || b.Done != test.items-test.failed {
				t.Fatalf("accepted %d: batch %+v, %v, %d rows were refused", test.accepted, b, err, refused)
			}
			if refused == 0 || refused > 10*MaxTries {
				t.Errorf("%d rows were refused", refused)
			}
			list, err := in.Results(timed(t, time.Minute), d.ID, Page{Top: 1000}, ItemFailed)
			if err != nil || len(list.Items) != test.failed {
				t.Fatalf("%d results, %v", len(list.Items), err)
			}
			for _, r := range list.Items {
				if want := fmt.Sprintf("attempt 5 of 5: storage refused a row with %d results of ", test.items); !strings.HasPrefix(r.Error, want) {
					t.Fatalf("item %s: error %q, want %q", r.ID, r.Error, want)
				}
			}
		})
	}
}

// TestFailingParcelWritesOnce: results and what is tried again are written by one
// change of the batch's row.
func TestFailingParcelWritesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in, d := s.one(nil, item(1, ""), item(2, "fail twice"), item(3, "fail twice"))
		for try, want := range []int64{2, 2} { // the row of results and the batch's row
			time.Sleep(time.Minute)
			m, before := s.receive(in, ExpressQueue), s.rows.Calls()
			if err := in.Process(t.Context(), ExpressQueue, Message{Text: m.Body}); err != nil {
				t.Fatal(err)
			}
			if n := s.rows.Calls() - before; n != want {
				t.Errorf("attempt %d: %d requests, want %d", try+1, n, want)
			}
			b, err := in.Get(t.Context(), d.ID)
			if err != nil || b.Retrying == nil || b.Retrying.Attempts != try+1 {
				t.Errorf("attempt %d: %+v, %v", try+1, b.Retrying, err)
			}
			if err := in.qs.Delete(timed(t, time.Minute), ExpressQueue, m); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestNoCopiesUncounted delivers a message many times while the batch's row cannot be
// written. What remains of its parcel is put after it was counted, and not again
// after its next try was counted.
func TestNoCopiesUncounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in, _ := s.one(nil, item(1, ""), item(2, "fail twice"))
		messages := func() int { return len(s.queues.All(ExpressQueue)) }
		m := s.receive(in, ExpressQueue)
		s.refuse = func(w table.Write) error {
			if w.Row.Key == format.BatchKey {
				return memory.ErrBusy
			}
			return nil
		}
		first := Message{Text: m.Body}
		for n := range 10 {
			first.Redelivered = n > 0
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
			if err := in.Process(ctx, ExpressQueue, first); err == nil {
				t.Fatal("it was counted")
			}
			stop()
		}
		if n := messages(); n != 1 {
			t.Errorf("%d messages while nothing is counted, want the one that is delivered", n)
		}
		s.refuse = nil
		if err := in.Process(t.Context(), ExpressQueue, first); err != nil {
			t.Fatal(err)
		}
		if n := messages(); n != 2 {
			t.Errorf("%d messages after the count, want 2", n)
		}
		time.Sleep(time.Minute)
		for _, copy := range s.queues.All(ExpressQueue) {
			if copy.Body == m.Body {
				continue
			}
			if err := in.Process(t.Context(), ExpressQueue, Message{Text: copy.Body}); err != nil {
				t.Fatal(err)
			}
		}
		before := messages()
		if err := in.Process(t.Context(), ExpressQueue, first); err != nil {
			t.Fatal(err)
		}
		if n := messages(); n != before {
			t.Errorf("%d messages after the next try was counted, want %d", n, before)
		}
	})
}

// TestNextTryWaits: the message of a next try is put after the batch's row was written.
// While it waits in its queue, its batch is not restarted.
func TestNextTryWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Queues report times in whole seconds.
		s := newSite(t, func(memory.Call) memory.Fault { return memory.Fault{Delay: 2 * time.Second} }, 0)
		in := s.start(nil, nil)
		if _, _, err := in.send("", item(1, "fail twice")); err != nil {
			t.Fatal(err)
		}
		in.handle(t.Context(), ExpressQueue, s.receive(in, ExpressQueue), 1)
		time.Sleep(2 * sweep.MinStalled)
		if swept, err := in.sweep(); err != nil || swept.Restarted != 0 {
			t.Errorf("%+v, %v", swept, err)
		}
		if n := len(s.queues.All(ExpressQueue)); n != 1 {
			t.Errorf("%d messages", n)
		}
	})
}
