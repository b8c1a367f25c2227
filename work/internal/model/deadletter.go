package model

import (
	"errors"
	"fmt"

	"kennel/queue"
)

// When does a message of batches become a dead letter?
//
//   - At once, if Process returns ErrMessage: it can never be processed. It is no
//     envelope, its body is damaged, of another version or not that of the parcel
//     that it names, what is stored for it is gone although its parcel has no
//     results, or its results do not belong to its batch.
//   - After too many attempts that ended with any other error: its receiver counts
//     them, the Functions host (maxDequeueCount of host.json) or the listener of a
//     worker (MaxAttempts).
//   - Never because of its items: one that fails is tried again with another
//     message, and is failed after MaxTries. Nor because of a closed gate, or a
//     process that cannot process it: see ErrHeld.
//
// A batch does not need its dead letters: the sweep queues a parcel again that
// has no results.
var (
	// ErrMessage reports a message that can never be processed.
	ErrMessage = errors.New("the message is not one of this app's")

	// ErrHeld reports that a message was put back, because its gate is closed or
	// because only another process can process it: the caller deletes the
	// message, a copy of it is in the queue.
	ErrHeld = errors.New("put back")
)

// Unusable wraps the errors of messages that no retry makes readable in
// ErrMessage. A lost claim is one of them: the sweep restarts the parcel.
func Unusable(err error) error {
	if errors.Is(err, queue.ErrMessage) || errors.Is(err, queue.ErrClaimGone) {
		return fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return err
}
