package work

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/queue"
	"kennel/work/internal/format"
	"kennel/work/internal/process"
)

// door is a gate that tests open.
type door struct {
	mu     sync.Mutex
	opened time.Time     // guarded by mu
	change chan struct{} // closed when it opens
	err    error
	early  bool // Wait does not wait
}

func newDoor() *door { return &door{change: make(chan struct{})} }

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened = time.Now()
	close(d.change)
}

func (d *door) Opened(context.Context) (time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened, d.err
}

func (d *door) Wait(ctx context.Context, limit time.Duration) (bool, error) {
	if d.err != nil {
		return false, d.err
	}
	if d.early {
		return false, nil
	}
	select {
	case <-d.change:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(limit):
		return false, nil
	}
}

// message returns the only message of a queue.
func (s *site) message(name string) queue.Message {
	s.t.Helper()
	all := s.queues.All(name)
	if len(all) != 1 {
		s.t.Fatalf("%d messages in %s, want one", len(all), name)
	}
	return all[0]
}

// one starts a process and submits a batch of one parcel.
func (s *site) one(o *Options, items ...string) (*instance, format.Details) {
	s.t.Helper()
	in := s.start(nil, o)
	d, err := in.submit(s.t.Context(), items, ParcelItems)
	if err != nil {
		s.t.Fatal(err)
	}
	return in, d
}

// TestHeld keeps a message at a closed gate.
func TestHeld(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		time  time.Duration // of ctx; 0: no limit
		opens time.Duration // 0: never
		err   error         // of the gate
		early bool          // Wait does not wait
		want  error
		after time.Duration
	}{
		{name: "closed", want: ErrHeld, after: 3 * time.Minute},
		{name: "opens", opens: time.Minute, after: time.Minute},
		{name: "deadline", time: 2 * time.Minute, want: ErrHeld, after: 2*time.Minute - process.StopEarly - 30*time.Second},
		{name: "no time to wait", time: 40 * time.Second, want: ErrHeld},
		{name: "unreadable", err: errors.New("no answer"), want: ErrHeld},
		{name: "stopped", early: true, want: ErrHeld},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil, 0)
				gate := newDoor()
				gate.err, gate.early = c.err, c.early
				in, _ := s.one(&Options{Gate: gate}, item(1, ""))
				if c.opens > 0 {
					time.AfterFunc(c.opens, gate.open)
				}
				m := s.message(ExpressQueue)
				before, err := queue.Parse(m.Body)
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := t.Context(), func() {}
				if c.time > 0 {
					ctx, stop = context.WithTimeout(ctx, c.time)
				}
				defer stop()
				began := time.Now()
				err = in.Process(ctx, ExpressQueue, Message{Text: m.Body})
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Fatalf("error %v, want %v", err, c.want)
				}
				if waited := time.Since(began); waited != c.after {
					t.Errorf("it waited for %v, want %v", waited, c.after)
				}
				copies := s.queues.All(ExpressQueue)[1:]
				if c.want == nil {
					if len(copies) != 0 {
						t.Errorf("%d copies of a message that was processed", len(copies))
					}
					return
				}
				if len(copies) != 1 {
					t.Fatalf("%d copies, want one", len(copies))
				}
				after, err := queue.Parse(copies[0].Body)
				if err != nil || after.ID != before.ID || !after.Time.Equal(before.Time) || after.Attempts != before.Attempts {
					t.Errorf("the copy is %+v, %v, want the identity of %+v", after, err, before)
				}
				delayed := copies[0].NextVisible.Sub(copies[0].Inserted) > 0
				if want := c.after == 0; delayed != want {
					t.Errorf("the copy is delayed: %t, want %t", delayed, want)
				}
			})
		})
	}
}

// TestProcessHasNoTime checks that a parcel whose items cannot begin loses no
// try, and that Process returns when its ctx ends.
func TestProcessHasNoTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in, d := s.one(&Options{ItemTime: time.Hour}, item(1, "slow"), item(2, "hang"))
		m := Message{Text: s.message(ExpressQueue).Body}
		short, stop := context.WithTimeout(t.Context(), process.StopEarly)
		defer stop()
		if err := in.Process(short, ExpressQueue, m); !errors.Is(err, process.ErrNoTime) {
			t.Errorf("error %v, want %v", err, process.ErrNoTime)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		time.AfterFunc(30*time.Second, cancel)
		began := time.Now()
		if err := in.Process(cancelled, ExpressQueue, m); !errors.Is(err, context.Canceled) || time.Since(began) != 30*time.Second {
			t.Errorf("error %v after %v, want %v at once", err, time.Since(began), context.Canceled)
		}
		if n := s.rows.Rows(d.ID); n != 1 {
			t.Errorf("%d rows, want only the batch's row", n)
		}
		time.Sleep(25 * time.Hour) // until the item that hangs returns
	})
}

// TestUnfinishedParcel checks that items that did not begin in time remain for
// the next try.
func TestUnfinishedParcel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in, d := s.one(&Options{Parallel: 1}, item(1, "slow"), item(2, "slow"), item(3, "slow"))
		ctx, stop := context.WithTimeout(t.Context(), process.StopEarly+41*time.Second)
		defer stop()
		if err := in.Process(ctx, ExpressQueue, Message{Text: s.message(ExpressQueue).Body}); err != nil {
			t.Fatal(err)
		}
		row, found, err := in.base.Store.FindResults(t.Context(), d.ID, format.ParcelID{})
		if err != nil || !found || row.Done < 2 || row.Count()+len(row.Remaining) != 3 {
			t.Errorf("%+v, %v, want at least two done items", row, err)
		}
	})
}

// TestOverdueItem checks that the time of an item begins with it, also if its
// worker processed another item before.
func TestOverdueItem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in, d := s.one(&Options{Parallel: 1}, item(1, "slow"), item(2, "hang"), item(3, "slow"))
		began := time.Now()
		if err := in.Process(t.Context(), ExpressQueue, Message{Text: s.message(ExpressQueue).Body}); err != nil {
			t.Fatal(err)
		}
		if took, want := time.Since(began), 20*time.Second+30*time.Second+process.Grace+20*time.Second; took != want {
			t.Errorf("it took %v, want %v", took, want)
		}
		row, found, err := in.base.Store.FindResults(t.Context(), d.ID, format.ParcelID{})
		if err != nil || !found || row.Done != 2 || !slices.Equal(row.Remaining, []int{1}) {
			t.Errorf("%+v, %v, want only the item that hangs to remain", row, err)
		}
		time.Sleep(25 * time.Hour) // until the item that hangs returns
	})
}

// TestLateItems checks that no item loses its time because the one before it
// returned in the moment in which it was overdue. Whether that one counts as done
// does not matter.
func TestLateItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		var items []string
		for i := range ParcelItems {
			items = append(items, item(i, "late"))
		}
		in, _ := s.one(&Options{Parallel: 1}, items...)
		began := time.Now()
		if err := in.Process(t.Context(), ExpressQueue, Message{Text: s.message(ExpressQueue).Body}); err != nil {
			t.Fatal(err)
		}
		if took, want := time.Since(began), ParcelItems*(30*time.Second+process.Grace); took != want {
			t.Errorf("it took %v, want %v", took, want)
		}
	})
}

// TestRedeliveredParcel checks that what follows is derived from the stored
// results, not from those of another try of the same items.
func TestRedeliveredParcel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, redelivered := range []bool{true, false} {
			s := newSite(t, nil, 0)
			in, d := s.one(nil, item(1, ""), item(2, ""))
			stored := format.ResultRow{
				Remaining: []int{1}, Attempts: []int{1}, NextAt: time.Now(), Done: 1, Operations: 5,
				Packed: in.base.Coders.Compress([]byte("1\nd\"1\"7\n")),
			}
			if _, err := in.base.Store.InsertResults(t.Context(), d.ID, stored); err != nil {
				t.Fatal(err)
			}
			m := s.message(ExpressQueue)
			if err := in.Process(t.Context(), ExpressQueue, Message{Text: m.Body, Redelivered: redelivered}); err != nil {
				t.Fatal(err)
			}
			if calls := len(s.processor.calls); (calls == 0) != redelivered {
				t.Errorf("redelivered %t: %d items were processed", redelivered, calls)
			}
			_, next, err := in.base.ParcelOf(t.Context(), s.queues.All(ExpressQueue)[1].Body)
			if err != nil || len(next.Items) != 1 || next.Items[0].ID != "2" || next.ID.Try != 1 {
				t.Errorf("the next parcel is %+v, %v, want item 2", next, err)
			}
			l, err := in.base.Store.BatchRow(t.Context(), d.ID)
			if err != nil || l.Done != 1 || l.Operations < 5 {
				t.Errorf("row %+v, %v, want the stored results counted without a message", l, err)
			}
		}
	})
}

// TestLostClaim checks that another copy of a message whose claim was removed
// with the first one is no dead letter.
func TestLostClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		long := make([]byte, MaxItem-100)
		random := uint32(1)
		for i := range long {
			random = random*1664525 + 1013904223
			long[i] = 'A' + byte(random>>24)%50&^32
		}
		in, _ := s.one(nil, `{"id":"1","do":"","x":"`+strings.Map(func(r rune) rune {
			if r < '0' || r > 'z' || r == '\\' {
				return 'q'
			}
			return r
		}, string(long))+`"}`)
		m := Message{Text: s.message(ExpressQueue).Body}
		if s.claimRows.Rows("") == 0 {
			t.Skip("the parcel travels in its message")
		}
		process := func() error { return in.Process(t.Context(), ExpressQueue, m) }
		if err := process(); err != nil {
			t.Fatal(err)
		}
		if err := in.Forget(t.Context(), m.Text); err != nil {
			t.Fatal(err)
		}
		if n := s.claimRows.Rows(""); n != 0 {
			t.Errorf("%d rows of claims are left", n)
		}
		if err := process(); err != nil {
			t.Errorf("the second copy: %v, want nil", err)
		}
	})
}

// TestBadMessages checks that messages that cannot be processed are reported as
// such.
func TestBadMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in, d := s.one(nil, item(1, ""))
		pack := func(id string, body []byte) string {
			text, err := in.base.Claims.Pack(t.Context(), queue.Envelope{ID: id, Time: d.SubmittedAt}, body)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		bomb := in.base.Coders.Compress(make([]byte, 8<<20))
		for name, text := range map[string]string{
			"no envelope":     "hello",
			"not compressed":  pack("1", []byte("hello")),
			"bomb":            pack("1", bomb),
			"empty":           pack("1", in.base.Coders.Compress([]byte("\n"))),
			"another version": pack("1", in.base.Coders.Compress([]byte(`{"v":2}`+"\n"))),
		} {
			if err := in.Process(t.Context(), ExpressQueue, Message{Text: text}); !errors.Is(err, ErrMessage) {
				t.Errorf("%s: error %v, want %v", name, err, ErrMessage)
			}
		}
	})
}
