package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

// packedListener runs a listener on packed messages in a process of its own.
func packedListener(t *testing.T, queues *memory.Queues, claims *queue.Claims, p *storetest.Process, handle queue.Handler[[]byte]) (stop func()) {
	t.Helper()
	l, err := queue.NewListener(p.Queues(queues), []string{"work"}, queue.Packed{Claims: claims}, handle,
		&queue.ListenerOptions{Lease: 30 * time.Second, MaxIdle: 5 * time.Second, MaxAttempts: 10, Drain: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = l.Run(ctx) }) // an error if a handler is left, as after a kill
	return func() { cancel(); running.Wait() }
}

// TestStorageFails lets the work of messages fail for an hour because of
// storage: with queues that work, with ones that refuse each write, and with
// ones that do not answer them. Meanwhile processes are replaced. No attempt is
// used up, and no message becomes a dead letter.
func TestStorageFails(t *testing.T) {
	t.Parallel()
	messages := storetest.Scale(3, 20)
	for name, fault := range map[string]memory.Fault{
		"handler alone": {}, "refused": {Err: memory.ErrBusy, Lost: true}, "unanswered": {Lost: true}, "unconfirmed": {Err: memory.ErrBusy},
	} {
		for _, every := range []time.Duration{9 * time.Minute, 2 * time.Hour}[:storetest.Scale(1, 2)] { // how often the process is replaced
			synctest.Test(t, func(t *testing.T) {
				var fails atomic.Bool
				queues := newQueues(t, func(c memory.Call) memory.Fault {
					if fails.Load() && c.Op != "Receive" && c.Op != "Count" {
						return fault
					}
					return distant(c)
				})
				claims, _ := newClaims(t, nil)
				for i := range messages {
					put(t, queues, "work", packed(t, claims, claimWork(fmt.Sprint(i)), []byte("hello")))
				}
				fails.Store(true)
				began := time.Now()
				var runs, counted atomic.Int64
				handle := func(_ context.Context, d queue.Delivery[[]byte]) error {
					runs.Add(1)
					time.Sleep(3 * time.Second)
					if fails.Load() {
						return fmt.Errorf("put the result: %w", queue.ErrNoAttempt)
					}
					counted.Store(max(counted.Load(), d.Attempt))
					return nil
				}
				for time.Since(began) < time.Hour {
					stop := packedListener(t, queues, claims, storetest.NewProcess(nil), handle)
					time.Sleep(min(every, time.Hour-time.Since(began)))
					stop()
				}
				fails.Store(false)
				stop := packedListener(t, queues, claims, storetest.NewProcess(nil), handle)
				took := time.Now()
				await(t, 10*time.Minute, drained(queues, "work"))
				if d := time.Since(took); d > 2*time.Minute {
					t.Errorf("%s: done %v after the outage", name, d)
				}
				stop()
				if dead := queues.All("work" + queue.PoisonSuffix); len(dead) > 0 {
					t.Errorf("%s: %d dead letters, such as %s", name, len(dead), dead[0].Body)
				}
				// A process that cannot make the message visible can have used up
				// one attempt.
				if limit := int64(1 + time.Hour/every); counted.Load() > limit {
					t.Errorf("%s: attempt %d was the last one, want at most %d", name, counted.Load(), limit)
				}
				if n := runs.Load(); every > time.Hour && (n < int64(messages)*30 || n > int64(messages)*130) {
					t.Errorf("%s: %d runs of %d messages in an hour", name, n, messages)
				}
			})
		}
	}
}

// TestKilledByMessage: a message that kills each process which works on it is a
// dead letter soon, although no attempt returns.
func TestKilledByMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, distant)
		claims, _ := newClaims(t, nil)
		put(t, queues, "work", packed(t, claims, claimWork("kills"), []byte("hello")))
		kills := 0
		for len(queues.All("work")) > 0 && kills < 100 {
			p := storetest.NewProcess(nil)
			stop := packedListener(t, queues, claims, p, func(context.Context, queue.Delivery[[]byte]) error {
				kills++
				p.Die()
				return errors.New("not reached by a process that is dead")
			})
			for range 120 {
				if time.Sleep(time.Second); p.Dead() || len(queues.All("work")) == 0 {
					break
				}
			}
			stop()
			time.Sleep(time.Minute) // until the lease has ended
		}
		dead := queues.All("work" + queue.PoisonSuffix)
		if kills != 20 || len(dead) != 1 {
			t.Fatalf("%d kills, %d dead letters; want 20 and 1", kills, len(dead))
		}
		e, err := queue.Parse(dead[0].Body)
		if err != nil || !strings.Contains(e.Reason, "did not end") || e.Attempts != 10 {
			t.Errorf("dead letter %+v, %v", e, err)
		}
	})
}

// TestUnrecordedAttempts: of messages that record no attempts, those whose
// attempts return in this process are not taken for ones that kill it.
func TestUnrecordedAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		queues := newQueues(t, func(c memory.Call) memory.Fault {
			if fails.Load() && c.Op != "Receive" && c.Op != "Count" {
				return memory.Fault{Err: memory.ErrBusy, Lost: true}
			}
			return distant(c)
		})
		put(t, queues, "work", "hello")
		fails.Store(true)
		l := listen(t, queues, func(context.Context, queue.Delivery[string]) error {
			if fails.Load() {
				return queue.ErrNoAttempt
			}
			return nil
		}, &queue.ListenerOptions{Lease: 20 * time.Second, MaxIdle: 5 * time.Second})
		time.Sleep(time.Hour)
		fails.Store(false)
		await(t, 2*time.Minute, drained(queues, "work"))
		l.end()
		if dead := queues.All("work" + queue.PoisonSuffix); len(dead) > 0 {
			t.Errorf("dead letter %s", dead[0].Body)
		}
	})
}
