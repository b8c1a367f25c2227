package queue_test

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
)

// A stop receives no more, puts back what was not begun, lets attempts end, and
// then cancels the others and puts their messages back.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, distant)
		put(t, queues, "work", "quick", "slow", "not begun")
		var mu sync.Mutex
		ended := make(map[string]error)
		l := listen(t, queues, func(ctx context.Context, d queue.Delivery[string]) (err error) {
			switch d.Body {
			case "quick":
				time.Sleep(15 * time.Second)
			case "slow":
				<-ctx.Done()
				err = context.Cause(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			ended[d.Body] = err
			return err
		}, &queue.ListenerOptions{HandsFor: func(int64, time.Duration) int { return 2 }})
		await(t, time.Second, func() bool { s := l.state(); return s.Hands == 2 && s.Received == 3 })
		time.Sleep(50 * time.Millisecond) // until the next receive has returned nothing
		go func() {
			time.Sleep(time.Second)
			if all := queues.All("work"); len(all) != 3 || all[2].NextVisible.After(time.Now()) {
				t.Errorf("a second after the stop: %+v, want the third message visible", all)
			}
			put(t, queues, "work", "later")
		}()
		if took := l.end(); took < 20*time.Second || took > 20*time.Second+4*requestTakes {
			t.Errorf("the stop took %v, want 20 s", took)
		}
		if err, ok := ended["quick"]; !ok || err != nil {
			t.Errorf("the quick attempt ended: %v, %v", ok, err)
		}
		if !errors.Is(ended["slow"], queue.ErrStopped) {
			t.Errorf("the slow attempt ended with %v, want %v", ended["slow"], queue.ErrStopped)
		}
		if _, ok := ended["not begun"]; ok {
			t.Error("a message was begun after the stop")
		}
		if n := visible(t, queues); n != 3 {
			t.Errorf("%d messages can be received after the stop, want slow, not begun and later", n)
		}
		if s := l.state(); s.Done != 1 || s.Returned != 2 || s.Retried != 0 {
			t.Errorf("%+v, want 1 done and 2 returned", s)
		}
		if err := l.Run(t.Context()); err == nil {
			t.Error("Run can be called twice")
		}
	})
}

// A handler that ignores the end of its ctx delays the stop by two seconds; its
// message is put back.
func TestStopWithHungHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, distant)
		put(t, queues, "work", "hello")
		l := listen(t, queues, func(context.Context, queue.Delivery[string]) error {
			time.Sleep(time.Hour)
			return nil
		}, &queue.ListenerOptions{Drain: 5 * time.Second})
		await(t, time.Second, func() bool { return l.state().Hands == 1 })
		begun := time.Now()
		l.stop()
		err := <-l.err
		if took := time.Since(begun); took < 7*time.Second || took > 8*time.Second {
			t.Errorf("the stop took %v, want 7 s", took)
		}
		if err == nil || !strings.Contains(err.Error(), "1 handlers did not return") {
			t.Errorf("Run returned %v", err)
		}
		if n := visible(t, queues); n != 1 {
			t.Errorf("%d messages can be received, want 1", n)
		}
		time.Sleep(time.Hour)
	})
}

// visible returns how many messages can be received.
func visible(t *testing.T, queues *memory.Queues) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	messages, err := queues.Receive(ctx, "work", queue.MaxReceive, time.Minute)
	if err != nil {
		t.Error(err)
	}
	return len(messages)
}

// A stop while storage does not answer ends in time.
func TestStopWithoutStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent sync.Map
		queues := newQueues(t, func(c memory.Call) memory.Fault {
			_, lost := silent.Load("now")
			return memory.Fault{Lost: lost}
		})
		put(t, queues, "work", items(40)...)
		l := listen(t, queues, takes(3*time.Second), &queue.ListenerOptions{HandsFor: func(int64, time.Duration) int { return 2 }})
		await(t, time.Second, func() bool { return l.state().Hands == 2 })
		silent.Store("now", true)
		if took := l.end(); took > 30*time.Second {
			t.Errorf("the stop took %v", took)
		}
		queues.Wait()
		if n := len(queues.All("work")); n != 40 {
			t.Errorf("%d messages are left, want 40", n)
		}
	})
}

// A codec that records attempts in the body does not count those that a stop
// interrupted.
func TestInterruptedIsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, distant)
		put(t, queues, "work", "0")
		var attempts []int64
		for range 7 {
			l, err := queue.NewListener(queues, []string{"work"}, counted{}, func(ctx context.Context, d queue.Delivery[string]) error {
				attempts = append(attempts, d.Attempt)
				if len(attempts) == 4 {
					return errors.New("broken")
				}
				<-ctx.Done()
				return ctx.Err()
			}, &queue.ListenerOptions{Drain: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
			stop()
		}
		want := []int64{1, 1, 1, 1, 2, 2, 2, 2}
		if len(attempts) != len(want) || attempts[3] != 1 || attempts[4] != 2 || attempts[7] != 2 {
			t.Errorf("attempts %v, want %v", attempts, want)
		}
	})
}

// counted is a codec whose bodies are the number of failed attempts.
type counted struct{ queue.Text }

func (counted) Attempts(m queue.Message) (failed int64, next string) {
	failed = int64(len(m.Body) - 1)
	return failed, m.Body + "0"
}

// A queue with many messages and slow work takes all hands but one, and a
// message of another queue is begun at once.
func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, distant)
		names := []string{"work-0", "work-1", "work-2"}
		put(t, queues, "work-0", items(200)...)
		var mu sync.Mutex
		var waited []time.Duration
		began := make(map[string]int)
		l := listen(t, queues, func(ctx context.Context, d queue.Delivery[string]) error {
			mu.Lock()
			began[d.Queue]++
			if d.Queue != "work-0" {
				at, err := time.Parse(time.RFC3339Nano, d.Body)
				if err != nil {
					t.Error(err)
				}
				waited = append(waited, time.Since(at))
			}
			mu.Unlock()
			return takes(30*time.Second)(ctx, d)
		}, &queue.ListenerOptions{Hands: 8, MaxIdle: time.Second}, names...)
		await(t, time.Second, func() bool { return l.State()[0].Hands == 6 })
		for range 5 {
			time.Sleep(time.Minute)
			for _, name := range names[1:] {
				put(t, queues, name, time.Now().Format(time.RFC3339Nano))
			}
		}
		// As many messages in all queues share the hands.
		for _, name := range names[1:] {
			for range 50 {
				put(t, queues, name, time.Now().Format(time.RFC3339Nano))
			}
		}
		mu.Lock()
		if len(waited) < 9 {
			t.Errorf("%d messages were begun, want 9 or 10", len(waited))
		}
		for _, d := range waited {
			if d > time.Second+2*requestTakes {
				t.Errorf("a message waited for %v beside a deep queue", d)
			}
		}
		clear(began)
		mu.Unlock()
		time.Sleep(5 * time.Minute)
		mu.Lock()
		for _, name := range names {
			if n := began[name]; n < 20 || n > 40 {
				t.Errorf("%s has %d of the attempts, want a third of about 80", name, n)
			}
		}
		mu.Unlock()
		l.end()
	})
}

// A message that arrives after the stop, or when its lease is over, is put back
// without work.
func TestLateReceive(t *testing.T) {
	for name, tt := range map[string]struct {
		lease, stop time.Duration
	}{"after the stop": {time.Minute, time.Second}, "after the lease": {4 * time.Second, 7 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			queues := newQueues(t, func(c memory.Call) memory.Fault {
				if c.Op == "Receive" {
					return memory.Fault{Back: 5 * time.Second}
				}
				return distant(c)
			})
			put(t, queues, "work", "hello")
			l := listen(t, queues, func(context.Context, queue.Delivery[string]) error {
				t.Errorf("the message was begun %s", name)
				return nil
			}, &queue.ListenerOptions{Lease: tt.lease, MaxIdle: time.Hour, HandsFor: func(int64, time.Duration) int { return 1 }})
			time.Sleep(tt.stop)
			l.end()
			if s := l.state(); s.Received == 0 || s.Returned != 1 || visible(t, queues) != 1 {
				t.Errorf("%s: %+v, want one message put back", name, s)
			}
		})
	}
}

// With the defaults, a deep queue gets more than one hand however many queues
// there are beside it.
func TestManyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, distant)
		names := make([]string, 64)
		for i := range names {
			names[i] = fmt.Sprint("work-", i)
		}
		put(t, queues, "work-0", items(200)...)
		l := listen(t, queues, takes(time.Second), nil, names...)
		await(t, 10*time.Second, func() bool { return l.State()[0].Hands >= 64 })
		l.end()
	})
}
