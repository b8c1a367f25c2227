package work

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/work/internal/format"
)

// someLines returns the body of a batch, and its items.
func someLines(n int) (body string, items []string) {
	for i := range n {
		items = append(items, item(i, ""))
	}
	return strings.Join(items, "\n"), items
}

// send submits a body with a key as an HTTP handler does: with a deadline.
func (in *instance) send(key, body string) (Batch, bool, error) {
	ctx, cancel := context.WithTimeout(in.p.Context(), 4*time.Minute)
	defer cancel()
	return in.Submit(ctx, Submission{Processor: "scripted", Name: "test", Key: key, Body: strings.NewReader(body)})
}

// sweep sweeps as a timer does.
func (in *instance) sweep() (Swept, error) {
	ctx, cancel := context.WithTimeout(in.p.Context(), 4*time.Minute)
	defer cancel()
	return in.Sweep(ctx)
}

// settle sweeps and works until no batch is unfinished and no blob can be an
// orphan. It returns the batches.
func (s *site) settle() []Batch {
	s.t.Helper()
	s.wait()
	in := s.start(nil, nil)
	in.base.Surplus = in.qs
	for _, pause := range []time.Duration{0, 3 * time.Minute, 3 * time.Minute, 26 * time.Hour} {
		time.Sleep(pause)
		if _, err := in.sweep(); err != nil {
			s.t.Errorf("sweep: %v", err)
		}
		in.drain()
	}
	list, err := in.list(Page{Top: 1000})
	if err != nil {
		s.t.Error(err)
	}
	s.wait()
	return list.Items
}

// drain works until all queues are empty.
func (in *instance) drain() {
	for {
		left := 0
		for _, name := range []string{"work-0", "work-1", "work-2", "work-3", ExpressQueue} {
			left += len(in.site.queues.All(name))
			ctx, cancel := context.WithTimeout(in.p.Context(), time.Minute)
			messages, err := in.qs.Receive(ctx, name, 32, 5*time.Minute)
			if err != nil {
				in.site.t.Error(err)
			}
			for _, m := range messages {
				in.handle(in.p.Context(), name, m, 1)
			}
			cancel()
		}
		if left == 0 {
			return
		}
		time.Sleep(time.Second)
	}
}

func (in *instance) list(p Page) (List[Batch], error) {
	ctx, cancel := context.WithTimeout(in.p.Context(), time.Minute)
	defer cancel()
	return in.List(ctx, true, p)
}

// settled settles, and checks that one batch is left, which is done. IDs are
// those that callers got. With accepted false, there may be no batch.
func (s *site) settled(ids []string, accepted bool, items []string) {
	s.t.Helper()
	batches := s.settle()
	switch {
	case len(batches) > 1:
		s.t.Fatalf("%d batches: %+v", len(batches), batches)
	case len(batches) == 0 && accepted:
		s.t.Fatal("the batch is lost")
	case len(batches) == 0:
		if left := s.staging.Names(); len(left) > 0 || s.rows.Rows("") > 0 {
			s.t.Fatalf("left without a batch: blobs %v, %d rows", left, s.rows.Rows(""))
		}
	default:
		for _, id := range ids {
			if id != batches[0].ID {
				s.t.Errorf("a caller got batch %s, processed was %s", id, batches[0].ID)
			}
		}
		s.check(format.Details{ID: batches[0].ID}, items)
	}
	for _, name := range []string{"work-0", "work-1", "work-2", "work-3", "work-4", "work-5", ExpressQueue} {
		if left := s.queues.All(name); len(left) > 0 {
			s.t.Errorf("%s holds %d messages", name, len(left))
		}
	}
	s.removed()
}

// removed checks that nothing is left after the retention.
func (s *site) removed() {
	s.t.Helper()
	time.Sleep(32 * 24 * time.Hour)
	in := s.start(nil, nil)
	if _, err := in.sweep(); err != nil {
		s.t.Errorf("sweep after the retention: %v", err)
	}
	if n, reports := s.rows.Rows(""), s.reports.Names(); n > 0 || len(reports) > 0 {
		s.t.Errorf("left after the retention: %d rows, reports %v", n, reports)
	}
}

func TestSubmit(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 100, 101, 2_000} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, nil, 0)
			in := s.start(nil, nil)
			body, items := someLines(n)
			batch, created, err := in.send("", body)
			parcels := (n + ParcelItems - 1) / ParcelItems
			if err != nil || !created || batch.Items != n || batch.State != Running || batch.Parcels != parcels || CheckID(batch.ID) != nil {
				t.Fatalf("submitted %+v, %v, %v", batch, created, err)
			}
			inQueues := make(map[string]int)
			for _, name := range []string{ExpressQueue, "work-0", "work-1", "work-2", "work-3"} {
				inQueues[name] = len(s.queues.All(name))
			}
			want := map[string]int{ExpressQueue: parcels, "work-0": 0, "work-1": 0, "work-2": 0, "work-3": 0}
			if parcels > format.ExpressParcels {
				want = map[string]int{ExpressQueue: 0, "work-0": 5, "work-1": 5, "work-2": 5, "work-3": 5}
			}
			if fmt.Sprint(inQueues) != fmt.Sprint(want) {
				t.Errorf("%d parcels are queued as %v, want %v", parcels, inQueues, want)
			}
			if len(s.staging.Names()) != 1 {
				t.Errorf("staged: %v", s.staging.Names())
			}
			s.settled([]string{batch.ID}, true, items)
		})
	}
}

// TestSubmitInvalid stores nothing of what is not accepted.
func TestSubmitInvalid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in := s.start(nil, &Options{MaxBytes: 7 << 20, MaxItems: 91})
		var long strings.Builder // more than a chunk, of parcels with one item
		random := make([]byte, 48_000)
		for i := range 90 {
			rand.Read(random)
			fmt.Fprintf(&long, "{\"id\":\"%d\",\"x\":\"%s\"}\n", i, base64.StdEncoding.EncodeToString(random))
		}
		tooMany, _ := someLines(92)
		for _, test := range []struct {
			s    Submission
			want error
		}{
			{Submission{Processor: "other", Body: strings.NewReader("{}")}, ErrProcessor},
			{Submission{Processor: "scripted", Name: strings.Repeat("x", MaxName+1), Body: strings.NewReader(`{"id":"a"}`)}, ErrName},
			{Submission{Processor: "scripted", Name: "\x00", Body: strings.NewReader(`{"id":"a"}`)}, ErrName},
			{Submission{Processor: "scripted", Body: strings.NewReader("")}, new(ItemErrors)},
			{Submission{Processor: "scripted", Body: strings.NewReader(long.String() + "{}")}, new(ItemErrors)},
			{Submission{Processor: "scripted", Body: strings.NewReader(tooMany)}, ErrTooLarge},
			{Submission{Processor: "scripted", Key: "k", Body: strings.NewReader(strings.Repeat(" ", 8<<20))}, ErrTooLarge},
		} {
			_, _, err := in.Submit(t.Context(), test.s)
			if _, wantItems := test.want.(*ItemErrors); wantItems {
				var invalid *ItemErrors
				if !errors.As(err, &invalid) {
					t.Errorf("%v, want invalid items", err)
				}
			} else if !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if left := s.staging.Names(); len(left) > 0 || s.rows.Rows("") > 0 {
				t.Errorf("%v: left %v, %d rows", test.want, left, s.rows.Rows(""))
			}
		}
		if s.staging.CallsOf("Put") == 0 {
			t.Error("nothing was staged: the test is too small")
		}
	})
}

// TestKeys submits again with keys.
func TestKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in := s.start(nil, nil)
		body, _ := someLines(3)
		first, created, err := in.send("k", body)
		if err != nil || !created {
			t.Fatal(created, err)
		}
		for _, same := range []string{body, zipped(body)} {
			if again, created, err := in.send("k", same); err != nil || created || again.ID != first.ID {
				t.Errorf("again: %+v, %v, %v, want %s", again, created, err, first.ID)
			}
		}
		if n := len(s.queues.All(ExpressQueue)); n != 1 {
			t.Errorf("%d messages, want one", n)
		}
		for _, other := range []Submission{
			{Processor: "scripted", Name: "test", Body: strings.NewReader(body + "\n")},
			{Processor: "scripted", Name: "tes", Body: strings.NewReader(body)},
			{Processor: "scripted", Name: "test", Body: strings.NewReader("[" + strings.ReplaceAll(body, "\n", ",") + "]"), Array: true},
		} {
			other.Key = "k"
			if b, _, err := in.Submit(t.Context(), other); !errors.Is(err, ErrKeyReused) {
				t.Errorf("another submission: %+v, %v", b, err)
			}
		}
		if other, created, err := in.send("K", body); err != nil || !created || other.ID == first.ID {
			t.Errorf("another key: %+v, %v, %v", other, created, err)
		}
		if n := len(s.settle()); n != 2 {
			t.Errorf("%d batches, want 2", n)
		}
		// A day later, the key is free.
		if next, created, err := in.send("k", body); err != nil || !created || next.ID == first.ID {
			t.Errorf("a day later: %+v, %v, %v", next, created, err)
		}
		s.settle()
		s.removed()
	})
}

// TestSubmitAtOnce submits one batch many times at once with a key.
func TestSubmitAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		delay := func(c memory.Call) memory.Fault {
			return memory.Fault{Delay: time.Duration(c.N%7) * time.Millisecond, Back: time.Duration(c.N%5) * time.Millisecond}
		}
		s := newSite(t, delay, 1)
		body, items := someLines(5)
		var running sync.WaitGroup
		var created atomic.Int64
		ids := make([]string, 8)
		for i := range ids {
			running.Go(func() {
				batch, isNew, err := s.start(nil, nil).send("k", body)
				if err != nil {
					t.Error(err)
				}
				if isNew {
					created.Add(1)
				}
				ids[i] = batch.ID
			})
		}
		running.Wait()
		if n := created.Load(); n != 1 {
			t.Errorf("%d callers created the batch, want one", n)
		}
		s.settled(ids, true, items)
	})
}

// TestSubmitKilled kills the process before and after each request of a
// submission. Then the caller tries again with its key, or not, and the sweep
// does the rest.
func TestSubmitKilled(t *testing.T) {
	t.Parallel()
	body, items := someLines(1_050)
	for _, test := range []struct {
		name, key string
		again     bool
	}{{"no key", "", false}, {"not again", "k", false}, {"again", "k", true}} {
		t.Run(test.name, func(t *testing.T) {
			storetest.KillAtEachRequest(t, storetest.Scale(29, 1), func(t *testing.T, kill *storetest.Killer) {
				s := newSite(t, nil, 0)
				var ids []string
				if batch, _, err := s.start(kill, nil).send(test.key, body); err == nil {
					ids = append(ids, batch.ID)
				}
				if test.again {
					batch, _, err := s.start(nil, nil).send(test.key, body)
					if err != nil {
						t.Error(err)
					}
					ids = append(ids, batch.ID)
				}
				s.settled(ids, len(ids) > 0, items)
			})
		})
	}
}

// TestSubmitFaults lets requests of a submission fail: one of them, or one and
// all that follow, before or after it was made.
func TestSubmitFaults(t *testing.T) {
	t.Parallel()
	body, items := someLines(20)
	lost := errors.New("connection reset")
	for _, test := range []struct {
		name  string
		fault memory.Fault
		all   bool
	}{
		{"lost", memory.Fault{Lost: true, Err: lost}, false},
		{"made", memory.Fault{Err: lost}, false},
		{"made late", memory.Fault{Err: lost, After: time.Minute}, false},
		{"all lost", memory.Fault{Lost: true, Err: lost}, true},
		{"all made", memory.Fault{Err: lost}, true},
		{"all made late", memory.Fault{Err: lost, After: time.Minute}, true},
		{"refused", memory.Fault{Lost: true, Err: table.ErrRefused}, true},
		{"no answer", memory.Fault{Lost: true}, true},
	} {
		for n, struck := int64(1), true; struck; n += int64(storetest.Scale(9, 1)) {
			for _, again := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					var calls atomic.Int64
					var healed atomic.Bool
					s := newSite(t, func(memory.Call) memory.Fault {
						at := calls.Add(1)
						if !healed.Load() && (at == n || test.all && at > n) {
							return test.fault
						}
						return memory.Fault{}
					}, 0)
					var ids []string
					batch, _, err := s.start(nil, nil).send("k", body)
					struck = calls.Load() >= n
					healed.Store(true)
					switch {
					case err == nil:
						ids = append(ids, batch.ID)
					case errors.Is(err, table.ErrUnclear) || errors.Is(err, lost) || errors.Is(err, table.ErrRefused) || errors.Is(err, context.DeadlineExceeded):
					default:
						t.Errorf("error %v", err)
					}
					if again {
						batch, _, err := s.start(nil, nil).send("k", body)
						if err != nil {
							t.Error(err)
						}
						ids = append(ids, batch.ID)
					}
					isClear := err != nil && !errors.Is(err, table.ErrUnclear) && !again
					if batches := s.settle(); isClear && len(batches) > 0 {
						t.Errorf("%v, but the batch was processed", err)
					}
					s.settled(ids, len(ids) > 0, items)
				})
				if t.Failed() {
					t.Fatalf("%s, request %d, again %v", test.name, n, again)
				}
			}
		}
	}
}

// zipped compresses a text.
func zipped(text string) string {
	var b strings.Builder
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.String()
}
