package queue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/queue"
)

// Each way in which an attempt can end.
func TestAttempts(t *testing.T) {
	errBroken := errors.New("broken")
	for _, tt := range []struct {
		name     string
		work     func(ctx context.Context, attempt int64) error
		attempts int
		takes    time.Duration // at least
		reason   string        // of the dead letter
		renewals int64
	}{
		{name: "done", work: func(context.Context, int64) error { return nil }, attempts: 1},
		{name: "fails twice", work: func(_ context.Context, attempt int64) error {
			if attempt < 3 {
				return errBroken
			}
			return nil
		}, attempts: 3, takes: 3 * time.Second},
		{name: "fails", work: func(context.Context, int64) error { return errBroken }, attempts: 4, takes: 7 * time.Second, reason: "broken"},
		{name: "cannot be read", work: func(context.Context, int64) error { return fmt.Errorf("no JSON: %w", queue.ErrMessage) },
			attempts: 1, reason: "no JSON: the message cannot be read"},
		{name: "panics", work: func(context.Context, int64) error { panic("out of cheese") }, attempts: 4, takes: 7 * time.Second, reason: "out of cheese"},
		{name: "ends its goroutine", work: func(context.Context, int64) error { runtime.Goexit(); return nil }, attempts: 4, takes: 7 * time.Second, reason: "goroutine"},
		{name: "ten minutes", work: func(context.Context, int64) error { time.Sleep(10 * time.Minute); return nil },
			attempts: 1, takes: 10 * time.Minute, renewals: 19},
		{name: "hangs", work: func(ctx context.Context, _ int64) error { <-ctx.Done(); return ctx.Err() },
			attempts: 4, takes: time.Hour, reason: "MaxWork", renewals: 4 * 29},
		{name: "hangs and ignores the end", work: func(ctx context.Context, attempt int64) error {
			if attempt < 2 {
				time.Sleep(30 * time.Minute)
			}
			return nil
		}, attempts: 2, takes: 15 * time.Minute, renewals: 29},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				queues := newQueues(t, distant)
				put(t, queues, "work", "hello")
				want := queues.All("work")[0]
				var ran runs
				l := listen(t, queues, func(ctx context.Context, d queue.Delivery[string]) error {
					if n := ran.begin(d.Body); int64(n) != d.Attempt || d.ID != want.ID || d.Queue != "work" || !d.Inserted.Equal(want.Inserted) {
						t.Errorf("attempt %d is %+v", n, d)
					}
					return tt.work(ctx, d.Attempt)
				}, &queue.ListenerOptions{MaxAttempts: 4, MaxWork: 15 * time.Minute, MaxIdle: time.Second})
				begun := time.Now()
				await(t, 5*time.Hour, drained(queues, "work"))
				if took := time.Since(begun); took < tt.takes || took > tt.takes*2+10*time.Second {
					t.Errorf("it took %v, want %v", took, tt.takes)
				}
				time.Sleep(30 * time.Minute) // for the handler that ignores the end
				l.end()
				if n := ran.of("hello"); n != tt.attempts {
					t.Errorf("%d attempts, want %d", n, tt.attempts)
				}
				if got := l.state().Requests["update"] - l.state().Retried; got < tt.renewals || got > tt.renewals+4 {
					t.Errorf("%d renewals, want %d", got, tt.renewals)
				}
				checkLetters(t, queues, want, tt.reason, tt.attempts)
			})
		})
	}
}

// checkLetters checks that the message is a dead letter exactly if there is a
// reason.
func checkLetters(t *testing.T, queues *memory.Queues, m queue.Message, reason string, attempts int) {
	t.Helper()
	letters := queues.All("work" + queue.PoisonSuffix)
	if reason == "" {
		if len(letters) > 0 {
			t.Errorf("dead letters: %v", letters)
		}
		return
	}
	if len(letters) != 1 {
		t.Fatalf("%d dead letters, want 1", len(letters))
	}
	got, err := queue.ReadDeadLetter(letters[0].Body)
	if err != nil || got.Queue != "work" || got.Message != m.ID || got.Text != m.Body || got.Attempts != int64(attempts) || !strings.Contains(got.Reason, reason) || got.At.IsZero() {
		t.Errorf("dead letter %+v, %v; want message %s and reason %q", got, err, m.ID, reason)
	}
}

// A message whose dead letter has no space for the reason is moved whole.
func TestDeadLetterOfLongMessage(t *testing.T) {
	for length, withReason := range map[int]bool{1000: true, 65000: true, queue.MaxBody: false} {
		synctest.Test(t, func(t *testing.T) {
			queues := newQueues(t, nil)
			long := strings.Repeat("x", length)
			put(t, queues, "work", long)
			l := listen(t, queues, func(context.Context, queue.Delivery[string]) error {
				return fmt.Errorf("%w: %s", queue.ErrMessage, strings.Repeat("y", 2000))
			}, nil)
			await(t, time.Minute, drained(queues, "work"))
			l.end()
			body := queues.All("work-poison")[0].Body
			letter, err := queue.ReadDeadLetter(body)
			if withReason && (err != nil || letter.Text != long || letter.Reason == "") || !withReason && body != long {
				t.Errorf("%d bytes: dead letter %.200q, %v", length, body, err)
			}
		})
	}
}

// While renewals fail, the lease ends. The attempt is cancelled before another
// listener gets the message, and its result is ignored.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, func(c memory.Call) memory.Fault {
			if c.Op == "Update" {
				return memory.Fault{Err: memory.ErrBusy, Lost: true}
			}
			return distant(c)
		})
		put(t, queues, "work", "hello")
		var working, ran atomic.Int64
		handle := func(ctx context.Context, d queue.Delivery[string]) error {
			if working.Add(1) > 1 {
				t.Error("two attempts at the same time")
			}
			defer working.Add(-1)
			if ran.Add(1) == 1 {
				<-ctx.Done()
				if context.Cause(ctx) != queue.ErrLeaseLost {
					t.Errorf("the cause is %v, want %v", context.Cause(ctx), queue.ErrLeaseLost)
				}
			}
			return nil
		}
		one := listen(t, queues, handle, &queue.ListenerOptions{MaxIdle: time.Second})
		two := listen(t, queues, handle, &queue.ListenerOptions{MaxIdle: time.Second})
		await(t, 2*time.Minute, func() bool { return ran.Load() == 2 || len(queues.All("work")) == 0 })
		one.end()
		two.end()
		if lost := one.state().LeasesLost + two.state().LeasesLost; lost != 1 {
			t.Errorf("%d leases lost, want 1", lost)
		}
	})
}

// A message whose work is done but that cannot be deleted is deleted without
// work when it is received again.
func TestDoneIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, nil)
		put(t, queues, "work", "hello")
		var ran runs
		l := listen(t, memoryOutage{queues, time.Now().Add(5 * time.Minute)}, func(_ context.Context, d queue.Delivery[string]) error {
			ran.begin(d.Body)
			return nil
		}, &queue.ListenerOptions{MaxIdle: time.Second})
		await(t, 10*time.Minute, drained(queues, "work"))
		l.end()
		if s := l.state(); ran.of("hello") != 1 || s.Repeated != 1 || s.Done != 1 {
			t.Errorf("%d attempts, %+v, want one attempt and a delete without work", ran.of("hello"), s)
		}
	})
}

// A delete that failed, and then finds the lease lost, is not taken for done if
// a renewal in between may have changed the receipt.
func TestUnclearRenewalBeforeDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, func(c memory.Call) memory.Fault {
			switch {
			case c.Op == "Delete" && sinceBubble() < 35*time.Second:
				return memory.Fault{Err: memory.ErrBusy, Lost: true}
			case c.Op == "Update":
				return memory.Fault{Err: errLost}
			}
			return distant(c)
		})
		put(t, queues, "work", "hello")
		l := listen(t, queues, nothing, &queue.ListenerOptions{MaxIdle: time.Second})
		await(t, 10*time.Minute, drained(queues, "work"))
		l.end()
		if s := l.state(); s.Done != 1 || s.Repeated != 1 {
			t.Errorf("%+v, want 1 done, after another delivery", s)
		}
	})
}

// memoryOutage refuses deletes and updates for a while.
type memoryOutage struct {
	*memory.Queues
	until time.Time
}

func (q memoryOutage) Delete(ctx context.Context, name string, m queue.Message) error {
	if time.Now().Before(q.until) {
		return memory.ErrBusy
	}
	return q.Queues.Delete(ctx, name, m)
}

func (q memoryOutage) Update(ctx context.Context, name string, m queue.Message, visibility time.Duration) (queue.Message, error) {
	if time.Now().Before(q.until) {
		return queue.Message{}, memory.ErrBusy
	}
	return q.Queues.Update(ctx, name, m, visibility)
}

// Deletes that are not answered do not keep renewals waiting.
func TestRenewalsHaveTheirOwnLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, func(c memory.Call) memory.Fault {
			if c.Op == "Delete" && sinceBubble() < time.Minute {
				return memory.Fault{Lost: true}
			}
			return distant(c)
		})
		put(t, queues, "work", "slow")
		put(t, queues, "work", items(20)...)
		l := listen(t, queues, func(ctx context.Context, d queue.Delivery[string]) error {
			if d.Body == "slow" {
				return takes(time.Minute)(ctx, d)
			}
			return nil
		}, queue.ListenerOptions{Lease: 12 * time.Second, MaxIdle: time.Second}.WithLimits(0, 2))
		time.Sleep(time.Minute)
		if s := l.state(); s.LeasesLost > 0 {
			t.Errorf("%+v, want no lease lost", s)
		}
		await(t, 10*time.Minute, drained(queues, "work"))
		l.end()
	})
}

// A message that waits for a hand is put back at half of its lease.
func TestBufferedForHalfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, distant)
		put(t, queues, "work", items(32)...)
		l := listen(t, queues, takes(time.Hour), &queue.ListenerOptions{HandsFor: func(int64, time.Duration) int { return 4 }, MaxWork: 2 * time.Hour})
		await(t, time.Minute, func() bool { s := l.state(); return s.Hands == 4 && s.Received == 32 })
		time.Sleep(30*time.Second - 50*time.Millisecond)
		if s := l.state(); s.Returned != 0 {
			t.Errorf("%+v: returned too early", s)
		}
		await(t, time.Second, func() bool { return l.state().Returned == 28 })
		time.Sleep(10 * time.Minute)
		if s := l.state(); s.Received > 32+4 {
			t.Errorf("%+v: received again without a free hand", s)
		}
		time.Sleep(2 * time.Hour)
		l.end()
	})
}

func TestListenerOptions(t *testing.T) {
	queues := memory.NewQueues(nil)
	for name, tt := range map[string]struct {
		queues []string
		o      queue.ListenerOptions
		want   string // the option that the error names
	}{
		"no queue":       {},
		"bad name":       {queues: []string{"Work"}},
		"no poison name": {queues: []string{strings.Repeat("a", 60)}},
		"twice":          {queues: []string{"work", "work"}},
		"hands":          {queues: []string{"one", "two"}, o: queue.ListenerOptions{Hands: 1}, want: "Hands"},
		"short lease":    {queues: []string{"work"}, o: queue.ListenerOptions{Lease: time.Second}, want: "Lease"},
		"fraction":       {queues: []string{"work"}, o: queue.ListenerOptions{Lease: 2500 * time.Millisecond}, want: "Lease"},
		"long lease":     {queues: []string{"work"}, o: queue.ListenerOptions{Lease: 8 * 24 * time.Hour}, want: "Lease"},
		"idle":           {queues: []string{"work"}, o: queue.ListenerOptions{MaxIdle: 1}, want: "MaxIdle"},
		"negative drain": {queues: []string{"work"}, o: queue.ListenerOptions{Drain: -1}, want: "Drain"},
	} {
		if _, err := queue.NewListener(queues, tt.queues, queue.Text{}, nothing, &tt.o); err == nil {
			t.Errorf("%s: no error", name)
		} else if !strings.HasPrefix(err.Error(), "new listener: ") || tt.want != "" && !strings.Contains(err.Error(), "queue.ListenerOptions."+tt.want+" is ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := queue.NewListener[string](queues, []string{"work"}, queue.Text{}, nil, nil); err == nil {
		t.Error("a listener without a handler")
	}
}
