package check

import (
	"time"

	"kennel/queue"
)

// quantile returns the age below which a share of the messages in the buckets of
// [queue.Ages] are, estimated between the bounds of its bucket. Of the last bucket it
// returns the lower bound. It returns 0 without messages, or if the buckets are
// others.
func quantile(counts []int64, share float64) time.Duration {
	bounds, all := queue.AgeBounds(), int64(0)
	for _, n := range counts {
		all += n
	}
	if len(counts) != len(bounds)+1 || all == 0 {
		return 0
	}
	rank, lower := share*float64(all), time.Duration(0)
	for i, upper := range bounds {
		if n := float64(counts[i]); n > 0 && rank <= n {
			return lower + time.Duration(rank/n*float64(upper-lower))
		}
		rank, lower = rank-float64(counts[i]), upper
	}
	return lower
}
