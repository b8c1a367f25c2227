package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kennel/channels"
	"kennel/internal/table"
	"kennel/queue"
	"kennel/work"
)

// ofMessage are the errors for which a message itself, or what is stored for it,
// is the reason.
var ofMessage = []error{
	queue.ErrMessage, queue.ErrLimit, table.ErrLimit, table.ErrLarge,
	work.ErrMessage, work.ErrCorrupt,
	channels.ErrMessage, channels.ErrCorrupt, channels.ErrNoProgress,
}

// noAttempt wraps the error of a message's work in [queue.ErrNoAttempt] if the
// message is not the reason: then storage failed, or took too long. What an item
// of a batch does wrong is its result, and no error. A message that was put back
// is done: its copy continues.
func noAttempt(err error) error {
	if err == nil || errors.Is(err, work.ErrHeld) || slices.ContainsFunc(ofMessage, func(own error) bool { return errors.Is(err, own) }) {
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

// outlast does the work of a message under a Functions host, again and again
// while storage fails. The host counts each delivery against maxDequeueCount,
// also one that failed because of storage, so an invocation waits for as long as
// it may: then the deliveries of a message last for more than an hour. do is
// called with repeated if it was called before.
func outlast(ctx context.Context, do func(repeated bool) error) error {
	err := do(false)
	for wait := firstOutageWait; errors.Is(noAttempt(err), queue.ErrNoAttempt); wait = min(2*wait, maxOutageWait) {
		if end, limited := ctx.Deadline(); !limited || time.Until(end) < wait+outageTry || table.Pause(ctx, wait) != nil {
			return err
		}
		err = do(true)
	}
	return err
}
