package work

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/queue"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// countOf counts a row of results.
func (in *instance) countOf(ctx context.Context, m Message, batch string, row format.ResultRow) error {
	_, err := in.collector.CountResults(ctx, m, batch, row, nil, 0)
	return err
}

// TestCountAtOnce checks that results that arrive together share a write.
func TestCountAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := false
		s := newSite(t, func(memory.Call) memory.Fault {
			if slow {
				return memory.Fault{Delay: 10 * time.Millisecond}
			}
			return memory.Fault{}
		}, 0)
		in := s.start(nil, nil)
		const parcels = 50
		var items []string
		for i := range parcels {
			items = append(items, item(i, ""))
		}
		d, err := in.submit(t.Context(), items, 1)
		if err != nil {
			t.Fatal(err)
		}
		slow = true
		before := s.rows.CallsOf("Submit")
		var running sync.WaitGroup
		for i := range parcels - 1 {
			for range 3 {
				running.Go(func() {
					if err := in.countOf(t.Context(), Message{}, d.ID, format.ResultRow{ID: format.ParcelID{Parcel: i}, Done: 1}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		running.Wait()
		if n := s.rows.CallsOf("Submit") - before; n > 3 {
			t.Errorf("%d writes for %d results that arrive together, want at most 3", n, parcels-1)
		}
		b, err := in.Get(t.Context(), d.ID)
		if err != nil || b.Done != parcels-1 || b.State != Running {
			t.Errorf("batch %+v, %v, want %d done items", b, err, parcels-1)
		}
	})
}

// TestCountWithoutTime checks that the caller that writes does not take its
// deadline to those that wait with it.
func TestCountWithoutTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down sync.Mutex
		isDown := false
		s := newSite(t, func(memory.Call) memory.Fault {
			down.Lock()
			defer down.Unlock()
			if isDown {
				return memory.Fault{Err: errors.New("down"), Lost: true, Delay: time.Second}
			}
			return memory.Fault{}
		}, 0)
		set := func(to bool) {
			down.Lock()
			defer down.Unlock()
			isDown = to
		}
		in := s.start(nil, nil)
		d, err := in.submit(t.Context(), []string{item(1, ""), item(2, ""), item(3, "")}, 1)
		if err != nil {
			t.Fatal(err)
		}
		first, second := format.ResultRow{ID: format.ParcelID{Parcel: 0}, Done: 1}, format.ResultRow{ID: format.ParcelID{Parcel: 1}, Done: 1}
		set(true)
		var running sync.WaitGroup
		running.Go(func() {
			ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
			defer stop()
			if err := in.countOf(ctx, Message{}, d.ID, first); err == nil {
				t.Error("a write while storage is down succeeded")
			}
		})
		time.Sleep(time.Second / 2)
		running.Go(func() {
			if err := in.countOf(t.Context(), Message{}, d.ID, second); err != nil {
				t.Errorf("the caller with more time: %v", err)
			}
		})
		time.Sleep(3500 * time.Millisecond)
		set(false)
		running.Wait()
		if b, err := in.Get(t.Context(), d.ID); err != nil || b.Done != 1 {
			t.Errorf("batch %+v, %v, want one done item", b, err)
		}
		if err := in.countOf(t.Context(), Message{Redelivered: true}, d.ID, first); err != nil {
			t.Error(err)
		}
		if b, err := in.Get(t.Context(), d.ID); err != nil || b.Done != 2 {
			t.Errorf("batch %+v, %v, want two done items", b, err)
		}
	})
}

// TestCountInvalid checks results that do not belong to their batch.
func TestCountInvalid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in, d := s.one(nil, item(1, ""))
		for _, r := range []format.ResultRow{{ID: format.ParcelID{Parcel: 1}, Done: 1}, {Done: 2}} {
			if err := in.countOf(t.Context(), Message{}, d.ID, r); !errors.Is(err, ErrMessage) {
				t.Errorf("%+v: error %v, want %v", r, err, ErrMessage)
			}
		}
		removed := model.NewID(time.Now())
		row := format.ResultRow{Done: 1, Packed: []byte{1}}
		if _, err := in.base.Store.InsertResults(t.Context(), removed, row); err != nil {
			t.Fatal(err)
		}
		if err := in.countOf(t.Context(), Message{}, removed, row); err != nil {
			t.Errorf("results of a batch that was removed: %v, want nil", err)
		}
		if n := s.rows.Rows(removed); n != 0 {
			t.Errorf("%d rows of a batch that was removed are left", n)
		}
	})
}

// fill runs a batch of full parcels to its end.
func fill(t *testing.T, parcels int, o *Options) (s *site, in *instance, d format.Details) {
	return fillWith(t, parcels, o, func(int) string { return "" })
}

// fillWith is fill with what the processor does with each item.
func fillWith(t *testing.T, parcels int, o *Options, do func(i int) string) (s *site, in *instance, d format.Details) {
	s = newSite(t, nil, 0)
	in = s.start(nil, o)
	var items []string
	for i := range parcels * ParcelItems {
		items = append(items, item(i, do(i)))
	}
	d, err := in.submit(t.Context(), items, ParcelItems)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ExpressQueue, "work-0", "work-1", "work-2", "work-3"} {
		for len(s.queues.All(name)) > 0 {
			messages, err := in.qs.Receive(bounded(t), name, queue.MaxReceive, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range messages {
				in.handle(t.Context(), name, m, 1/float64(len(messages)))
			}
		}
	}
	return s, in, d
}

// receive receives one message.
func (in *instance) receive(t *testing.T, name string) queue.Message {
	t.Helper()
	messages, err := in.qs.Receive(bounded(t), name, 1, time.Minute)
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages, %v, want one", len(messages), err)
	}
	return messages[0]
}

func bounded(t *testing.T) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	return ctx
}

// TestOperations compares the operations that a batch reports with the requests
// that were made.
func TestOperations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const parcels = 20
		s, in, d := fill(t, parcels, nil)
		made := s.requests.Load() - 4 // to stage and record the batch, which the submission counts
		b, err := in.Get(t.Context(), d.ID)
		if err != nil || b.State != Done {
			t.Fatalf("batch %+v, %v", b, err)
		}
		// This test does not submit: the puts of the parcels are not counted.
		if reported := b.StorageOperations + parcels; reported < made-3 || reported > made+3 {
			t.Errorf("the batch reports %d operations, of %d requests", reported, made)
		}
		each := float64(made) / (parcels * ParcelItems)
		if each > 0.06 {
			t.Errorf("%.4f requests for each item, want at most 0.06", each)
		}
		t.Logf("figure: requests for each item of a batch of %d | %.3f | 0.06", parcels*ParcelItems, each)
	})
}

// TestPages reads results that are too large for one page.
func TestPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, in, d := fill(t, 3, nil)
		for _, top := range []int{1, 99, 100, 101, 1000} {
			seen, page := 0, Page{Top: top}
			for {
				list, err := in.Results(t.Context(), d.ID, page)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range list.Items {
					if r.ID != fmt.Sprint(seen) || string(r.Result) != `{"of":"`+r.ID+`"}` {
						t.Fatalf("result %d is %+v", seen, r)
					}
					seen++
				}
				if page.Continuation = list.Continuation; page.Continuation == "" {
					break
				}
				if len(list.Items) != top {
					t.Errorf("a page of %d results, want %d", len(list.Items), top)
				}
			}
			if seen != 3*ParcelItems {
				t.Errorf("pages of %d have %d results", top, seen)
			}
		}
		list, err := in.Results(t.Context(), d.ID, Page{Top: 5})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []string{"x", list.Continuation + "x", strings.Repeat("A", 500)} {
			if _, err := in.Results(t.Context(), d.ID, Page{Top: 5, Continuation: c}); !errors.Is(err, ErrContinuation) {
				t.Errorf("continuation %q: %v, want %v", c, err, ErrContinuation)
			}
		}
		other := model.NewID(time.Now())
		if _, err := in.Results(t.Context(), other, Page{Top: 5, Continuation: list.Continuation}); !errors.Is(err, ErrContinuation) {
			t.Errorf("continuation of another batch: %v", err)
		}
		if _, err := in.Results(t.Context(), other, Page{Top: 5}); !errors.Is(err, ErrNotFound) {
			t.Errorf("results of an unknown batch: %v, want %v", err, ErrNotFound)
		}
		_ = s
	})
}
