package deadletters

import (
	"context"
	"math/rand/v2"
	"time"

	"kennel/internal/table"
	"kennel/queue"
)

// A request without an answer is sent up to maxTries times. The waits in
// between are random, up to a bound that doubles from firstWait to maxWait.
const (
	maxTries    = 8
	firstWait   = 200 * time.Millisecond
	maxWait     = 5 * time.Second
	requestTime = 10 * time.Second // of one try
)

// request sends a request until storage answers it. It begins no try after
// again ended, and cancels one at end. It returns unclear if a try had no
// answer: it may have been applied, whatever the error is.
func request(again, end context.Context, do func(context.Context) error) (unclear bool, err error) {
	wait := firstWait
	for n := 1; ; n++ {
		if err := again.Err(); err != nil && n == 1 {
			return false, err // nothing was sent
		}
		ctx, cancel := context.WithTimeout(end, requestTime)
		err = do(ctx)
		cancel()
		if err == nil || queue.IsAnswer(err) {
			return unclear, err
		}
		unclear = true
		if n == maxTries || table.Pause(again, rand.N(wait)) != nil {
			return unclear, err
		}
		wait = min(2*wait, maxWait)
	}
}

// answer sends a request that changes nothing.
func answer[T any](ctx context.Context, read func(context.Context) (T, error)) (found T, err error) {
	_, err = request(ctx, ctx, func(ctx context.Context) (err error) {
		found, err = read(ctx)
		return err
	})
	return found, err
}
