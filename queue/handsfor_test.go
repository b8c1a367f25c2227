package queue_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/queue"
)

// TestHandsFor: a queue has as many messages at work as the rule of now allows
// for its depth and age. When the rule allows fewer, what is at work goes on, and
// nothing begins until enough has ended. When it allows more, that has an effect
// within a minute, also while long work goes on.
func TestHandsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		working, peak, interrupted := 0, 0, 0
		rule := func(messages int64, oldest time.Duration) int { return 2 }
		set := func(change func(int64, time.Duration) int) {
			mu.Lock()
			defer mu.Unlock()
			rule, peak = change, working
		}
		count := func() (now, most int) {
			mu.Lock()
			defer mu.Unlock()
			return working, peak
		}
		work := func(ctx context.Context, d queue.Delivery[string]) error {
			mu.Lock()
			working++
			peak = max(peak, working)
			mu.Unlock()
			time.Sleep(10 * time.Minute)
			mu.Lock()
			defer mu.Unlock()
			if working--; ctx.Err() != nil {
				interrupted++
			}
			return nil
		}
		queues := newQueues(t, distant)
		put(t, queues, "work", items(200)...)
		l := listen(t, queues, work, &queue.ListenerOptions{HandsFor: func(messages int64, oldest time.Duration) int {
			mu.Lock()
			defer mu.Unlock()
			return rule(messages, oldest)
		}})
		want := func(when string, now, most int) {
			t.Helper()
			if n, m := count(); n != now || m > most {
				t.Errorf("%s: %d at work and at most %d since the change, want %d and %d", when, n, m, now, most)
			}
		}
		time.Sleep(25 * time.Minute)
		want("two hands", 2, 2)

		set(func(messages int64, _ time.Duration) int {
			if messages > 150 {
				return 8
			}
			return 1
		})
		time.Sleep(2 * time.Minute)
		want("eight hands for more than 150 messages", 8, 8)

		set(func(int64, time.Duration) int { return 3 })
		time.Sleep(2 * time.Minute)
		want("eight go on although three are allowed", 8, 8)
		time.Sleep(12 * time.Minute)
		set(func(int64, time.Duration) int { return 3 })
		time.Sleep(11 * time.Minute)
		want("three hands", 3, 3)

		set(func(_ int64, oldest time.Duration) int {
			if oldest > time.Hour {
				return 12
			}
			return 3
		})
		time.Sleep(2 * time.Minute)
		want("three hands for messages of less than an hour", 3, 3)
		time.Sleep(30 * time.Minute)
		want("twelve hands for old messages", 12, 12)
		if mu.Lock(); interrupted > 0 {
			t.Errorf("%d attempts were interrupted", interrupted)
		}
		mu.Unlock()
		l.stop()
		<-l.err                      // the attempts were not waited for
		time.Sleep(10 * time.Minute) // until they end
	})
}
