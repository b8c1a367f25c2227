package queue_test

import (
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
		if s := l.state(); !slices.Equal(s.Ages, []int64{1, 0, 2, 0, 0, 0, 0, 1, 0, 0}) || s.AgeSeconds != 3610 {
			t.Errorf("ages %v, %v s, want one new, two of 5 s and one of an hour", s.Ages, s.AgeSeconds)
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
