package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kennel/internal/table"
	"kennel/queue"
)

// OfMessage are the errors for which a message itself, or what is stored for it,
// is the reason.
var OfMessage = []error{
	queue.ErrMessage, queue.ErrLimit, table.ErrLimit, table.ErrLarge,
}

// NoAttempt wraps the error of a message's work in [queue.ErrNoAttempt] if the
// message is not the reason: then storage failed, or took too long. own are the
// errors of the job for which the message is the reason.
func NoAttempt(err error, own ...error) error {
	is := func(reason error) bool { return errors.Is(err, reason) }
	if err == nil || slices.ContainsFunc(OfMessage, is) || slices.ContainsFunc(own, is) {
		return err
	}
	return fmt.Errorf("%w: %w", queue.ErrNoAttempt, err)
}

// The waits within an invocation while storage fails, and the time that another
// try needs.
const (
	firstOutageWait = 5 * time.Second
	maxOutageWait   = 30 * time.Second
	outageTry       = time.Minute
)

// Outlast does the work of a message under a Functions host, again and again
// while storage fails. The host counts each delivery against maxDequeueCount,
// also one that failed because of storage, so an invocation waits for as long as
// it may: then the deliveries of a message last for more than an hour. do is
// called with repeated if it was called before.
func Outlast(ctx context.Context, do func(repeated bool) error, own ...error) error {
	err := do(false)
	for wait := firstOutageWait; errors.Is(NoAttempt(err, own...), queue.ErrNoAttempt); wait = min(2*wait, maxOutageWait) {
		if end, limited := ctx.Deadline(); !limited || time.Until(end) < wait+outageTry || table.Pause(ctx, wait) != nil {
			return err
		}
		err = do(true)
	}
	return err
}
