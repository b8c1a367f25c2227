package queue_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kennel/queue"
)

// TestAges: each message counts in the bucket of its age when it is received,
// and a message that is received again counts again, by its whole age.
func TestAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, nil)
		put(t, queues, "work", "of an hour")
		time.Sleep(time.Hour - 5*time.Second)
		put(t, queues, "work", "of 5 s", "of 5 s as well")
		time.Sleep(5 * time.Second)
		put(t, queues, "work", "new")
		l := listen(t, queues, nothing, nil)
		await(t, time.Minute, drained(queues, "work"))
		s := l.state()
		if !slices.Equal(s.Ages, []int64{1, 0, 2, 0, 0, 0, 0, 1, 0, 0}) || s.AgeSeconds != 3610 {
			t.Errorf("ages %v, %v s, want one new, two of 5 s and one of an hour", s.Ages, s.AgeSeconds)
		}
		if !slices.Equal(s.Latencies, s.Ages) || s.Pool != 32 {
			t.Errorf("latencies %v, a pool of %d, want those of the ages %v, and 32", s.Latencies, s.Pool, s.Ages)
		}
		l.end()
	})
	synctest.Test(t, func(t *testing.T) {
		var ages queue.Ages
		for _, bound := range queue.AgeBounds() {
			ages.Add(time.Now().Add(-bound))
			ages.Add(time.Now().Add(-bound - 1))
		}
		ages.Add(time.Now().Add(time.Minute))
		if got := ages.Counts(); !slices.Equal(got, []int64{2, 2, 2, 2, 2, 2, 2, 2, 2, 1}) || len(got) != len(queue.AgeBounds())+1 {
			t.Errorf("%v, want the bounds in their buckets, and a time in the future in the first", got)
		}
	})
}

// TestHandTime: attempts that end keep hands, also those that fail, and a
// message counts by its whole age once it is done.
func TestHandTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := newQueues(t, nil)
		put(t, queues, "work", "one", "two")
		l := listen(t, queues, func(_ context.Context, d queue.Delivery[string]) error {
			time.Sleep(3 * time.Second)
			if d.Attempt == 1 && d.Body == "two" {
				return errors.New("not yet")
			}
			return nil
		}, nil)
		await(t, time.Minute, drained(queues, "work"))
		if s := l.state(); s.HandSeconds != 9 || !slices.Equal(s.Latencies, []int64{0, 0, 1, 1, 0, 0, 0, 0, 0, 0}) {
			t.Errorf("%v s of hands, latencies %v, want three attempts of 3 s, and one message that took more than 5 s", s.HandSeconds, s.Latencies)
		}
		l.end()
	})
}
