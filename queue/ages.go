package queue

import (
	"slices"
	"sync/atomic"
	"time"
)

// ageBounds are the upper bounds of the buckets of Ages: from messages that are
// received at once to a backlog of hours.
var ageBounds = [...]time.Duration{
	100 * time.Millisecond, time.Second, 5 * time.Second, 15 * time.Second,
	time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour,
}

// AgeBounds returns the upper bounds of the buckets of [Ages], in ascending
// order. A last bucket holds what is older than all of them.
func AgeBounds() []time.Duration { return slices.Clone(ageBounds[:]) }

// Ages counts messages by their age when they were received. The zero value is
// ready to use. Its methods may be called concurrently.
type Ages struct {
	counts       [len(ageBounds) + 1]atomic.Int64
	milliseconds atomic.Int64 // the sum; in nanoseconds, a busy queue with a backlog of an hour would exceed it within hours
}

// Add counts a message that was put at a time. A time in the future, by another
// clock, is an age of 0.
func (a *Ages) Add(inserted time.Time) {
	age := max(time.Since(inserted), 0)
	bucket, _ := slices.BinarySearch(ageBounds[:], age) // a message of exactly the bound is in its bucket
	a.counts[bucket].Add(1)
	a.milliseconds.Add(age.Milliseconds())
}

// Counts returns the messages in each bucket.
func (a *Ages) Counts() []int64 {
	counts := make([]int64, len(a.counts))
	for i := range counts {
		counts[i] = a.counts[i].Load()
	}
	return counts
}

// Seconds returns the sum of all ages.
func (a *Ages) Seconds() float64 { return float64(a.milliseconds.Load()) / 1000 }
