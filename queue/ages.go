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

// Quantile returns the age below which a share of the messages in the buckets of
// [Ages] are, estimated between the bounds of its bucket. Of the last bucket it
// returns the lower bound. It returns 0 without messages, or if the buckets are
// others.
func Quantile(counts []int64, share float64) time.Duration {
	all := int64(0)
	for _, n := range counts {
		all += n
	}
	if len(counts) != len(ageBounds)+1 || all == 0 {
		return 0
	}
	rank, lower := share*float64(all), time.Duration(0)
	for i, upper := range ageBounds {
		if n := float64(counts[i]); n > 0 && rank <= n {
			return lower + time.Duration(rank/n*float64(upper-lower))
		}
		rank, lower = rank-float64(counts[i]), upper
	}
	return lower
}

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
