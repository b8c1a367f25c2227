package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"kennel/internal/cas"
	"kennel/internal/table"
)

// ErrUnclear reports that a message may exist although it could not be
// published.
var ErrUnclear = cas.ErrUnclear

const (
	maxTries    = 10                     // of one put
	firstWait   = 200 * time.Millisecond // before the second try, at most; then it doubles …
	maxWait     = 5 * time.Second        // … up to this
	callTimeout = 10 * time.Second       // of one request
)

// IsAnswer reports whether an error is the store's answer, so that another try
// does not help.
func IsAnswer(err error) bool {
	return errors.Is(err, ErrLimit) || errors.Is(err, ErrRefused) || errors.Is(err, ErrLeaseLost)
}

// putRetried puts a message, up to maxTries times. Its error wraps ErrUnclear
// if the message may exist; it may also exist more than once.
func putRetried(ctx context.Context, store Putter, queue, body string, delay time.Duration) (tries int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err // nothing was sent
	}
	unclear := false
	for tries = 1; ; tries++ {
		one, cancel := context.WithTimeout(ctx, callTimeout)
		_, err = store.Put(one, queue, body, delay)
		cancel()
		switch {
		case err == nil:
			return tries, nil
		case IsAnswer(err) && !unclear:
			return tries, err
		case IsAnswer(err):
			return tries, fmt.Errorf("%w: %v", ErrUnclear, err) // an earlier try may have been applied
		}
		unclear = true
		if tries == maxTries || table.Pause(ctx, rand.N(backOff(firstWait, tries, maxWait))) != nil {
			return tries, fmt.Errorf("%w: %w", ErrUnclear, err)
		}
	}
}

// backOff doubles from first with each failure, up to limit.
func backOff(first time.Duration, failures int, limit time.Duration) time.Duration {
	for ; failures > 1 && first < limit; failures-- {
		first *= 2
	}
	return min(first, limit)
}
