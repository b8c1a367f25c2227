package work

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/queue"
	"kennel/work/internal/format"
)

// tryReceive receives a message of a queue, if there is one.
func (s *site) tryReceive(in *instance, name string) (queue.Message, bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	messages, err := in.qs.Receive(ctx, name, 1, time.Minute)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(messages) == 0 {
		return queue.Message{}, false
	}
	return messages[0], true
}

func (s *site) receive(in *instance, name string) queue.Message {
	s.t.Helper()
	m, ok := s.tryReceive(in, name)
	if !ok {
		s.t.Fatalf("no message in %s", name)
	}
	return m
}

// TestRetrying: a batch shows what failed and is tried again, from the first
// failure until its next attempt has succeeded, also in a process that begins
// later. The process that tried it reports it from the second failure on.
func TestRetrying(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in, d := s.one(nil, item(1, ""), item(2, "fail twice"), item(3, "fail twice"))
		for try := range 3 {
			if try > 0 {
				time.Sleep(time.Minute)
			}
			in.handle(t.Context(), ExpressQueue, s.receive(in, ExpressQueue), 1)
			b, err := s.start(nil, nil).Get(timed(t, time.Minute), d.ID)
			if err != nil {
				t.Fatal(err)
			}
			r, stuck := b.Retrying, in.Stuck()
			if (len(stuck) > 0) != (try == 1) {
				t.Errorf("after attempt %d: stuck %+v", try+1, stuck)
			}
			if try == 2 {
				if r != nil || b.State != Done {
					t.Errorf("after the end: %+v, %+v", b, r)
				}
				continue
			}
			if r == nil || r.Items != 2 || r.Attempts != try+1 || r.Item != "2" || r.Error != "broken" || r.More || !r.NextAt.After(time.Now()) || time.Until(r.NextAt) > 20*time.Second {
				t.Errorf("after attempt %d: %+v", try+1, r)
			}
			if try == 1 && (stuck[0].Batch != d.ID || stuck[0].Items != 2 || stuck[0].Attempts != 2 || stuck[0].Error != "broken") {
				t.Errorf("stuck %+v", stuck)
			}
		}
	})
}

// TestRetryingIsBounded: of many parcels with failures, a batch shows ten, with
// few requests, and its row stays small.
func TestRetryingIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in := s.start(nil, nil)
		var items []string
		for i := range 100 {
			items = append(items, item(i, "vast error"))
		}
		d, err := in.submit(timed(t, time.Minute), items, 1)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 4 {
			for len(s.queues.All(fmt.Sprintf("work-%d", n))) > 0 && in.Stuck() == nil {
				name := fmt.Sprintf("work-%d", n)
				m, ok := s.tryReceive(in, name)
				if !ok {
					break
				}
				in.handle(t.Context(), name, m, 1)
			}
		}
		l, err := in.base.Store.BatchRow(timed(t, time.Minute), d.ID)
		if err != nil || len(l.Retries) != format.MaxRetries || len(l.Retries.Text()) > 8<<10 {
			t.Fatalf("%d entries of %d bytes, %v", len(l.Retries), len(l.Retries.Text()), err)
		}
		b, err := in.Get(timed(t, time.Minute), d.ID)
		if err != nil || b.Retrying == nil || b.Retrying.Items != format.MaxRetries || !b.Retrying.More || !strings.HasPrefix(b.Retrying.Error, "vast") {
			t.Errorf("%+v, %v", b.Retrying, err)
		}
		in.drain()
		if b, err := in.Get(timed(t, time.Minute), d.ID); err != nil || b.Failed != 100 || b.Retrying != nil {
			t.Errorf("at the end %+v, %v", b, err)
		}
		list, err := in.Results(timed(t, time.Minute), d.ID, Page{Top: 1})
		if err != nil || !strings.HasPrefix(list.Items[0].Error, "attempt 5 of 5: vast") {
			t.Errorf("results %+v, %v", list, err)
		}
		if got := in.Stuck(); got != nil {
			t.Errorf("stuck at the end: %+v", got)
		}
	})
}

// TestRetryingIsOver: an entry is over when the results of its next try are
// counted, while the batch goes on.
func TestRetryingIsOver(t *testing.T) {
	l := format.NewBatchRow(format.Details{Items: 3, Parcels: 3})
	for n := range 2 {
		if !l.AddRetry(format.Retry{Parcel: n, Items: 1, Item: "i", NextAt: time.Now()}) {
			t.Fatal("it was not added")
		}
	}
	for n := range 2 {
		if r := l.Retrying(); r == nil || r.Items != 2-n {
			t.Errorf("%d are over: %+v", n, r)
		}
		l.Tried.Count(n)
		l.Tried.Count(n)
		if l.AddRetry(format.Retry{Parcel: n, Items: 1}) {
			t.Error("an entry that came late was added")
		}
	}
	if r := l.Retrying(); r != nil {
		t.Errorf("all are over: %+v", r)
	}
}
