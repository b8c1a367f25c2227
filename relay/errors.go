package relay

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Class decides what the relay does after an error.
type Class int

const (
	// Unavailable: the connection was lost, an answer is missing, or the
	// namespace reported a fault of its own. Only this class leads to failover.
	// Errors without a class count as Unavailable.
	Unavailable Class = iota + 1

	// Throttled: the namespace is busy and wants fewer requests.
	Throttled

	// Invalid: the message or the name of its entity is at fault. A retry fails,
	// too.
	Invalid

	// Denied: the namespace refuses access, or the settings do not allow to
	// connect to it. An operator must act, and the message may be sent then.
	Denied

	// TooLarge: the message is larger than the entity accepts.
	TooLarge

	// NotFound: the entity does not exist or is disabled.
	NotFound

	// Full: the entity holds as much as it may.
	Full

	// LockLost: a delivery was locked for too long. Only Settle and Renew
	// return it.
	LockLost

	// Unreadable: a message cannot be decoded. Only Receive and Peek return it.
	Unreadable
)

var classes = [...]string{"unknown", "unavailable", "throttled", "invalid", "denied", "too large", "not found", "full", "lock lost", "unreadable"}

func (c Class) String() string {
	if c < 0 || int(c) >= len(classes) {
		c = 0
	}
	return classes[c]
}

// Error is an error of a namespace with its class.
type Error struct {
	Class Class

	// After is how long the namespace wants the sender to wait. Only of
	// Throttled; 0 if it did not report one.
	After time.Duration

	// Unsent reports that the message was certainly not stored, because it did
	// not reach the namespace or was rejected. So another attempt cannot make a
	// duplicate. Only of Send.
	Unsent bool

	Err error // the cause; never nil
}

func (e *Error) Error() string { return e.Class.String() + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// ErrClosed reports a call after Close. Its class is Unavailable, because
// another sender may work.
var ErrClosed = errors.New("the relay is closed")

func closed() error { return &Error{Class: Unavailable, Unsent: true, Err: ErrClosed} }

// classOf returns the class of an error of a [Connection].
func classOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Unavailable
}

// final reports whether a retry would fail, too, or is the caller's decision.
func final(err error) bool {
	switch classOf(err) {
	case Unavailable, Throttled:
		return errors.Is(err, ErrClosed)
	}
	return true
}

// refused reports whether every backlog queue would answer so.
func refused(err error) bool {
	switch classOf(err) {
	case Invalid, Denied, TooLarge:
		return true
	}
	return errors.Is(err, ErrClosed)
}

// throttleWait is how long to wait at least after the namespace was busy.
const throttleWait = 10 * time.Second

// busyFor returns how long to wait after an error because the namespace is busy:
// 0 if that is not its cause.
func busyFor(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok && e.Class == Throttled {
		return max(throttleWait, e.After)
	}
	return 0
}

// unsent reports whether the attempt that returned err certainly stored
// nothing.
func unsent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Unsent
}

// SendError reports that [Sender.Send] did not send a message, or that it may
// or may not have done so.
type SendError struct {
	Entity    string
	MessageID any // of every attempt

	// Class is that of the primary's last error. It is Unavailable if the
	// message only went to the backlog, and 0 if no attempt ended with an error.
	Class Class

	// Unclear reports that the message may be stored, because an attempt ended
	// without an answer.
	Unclear bool

	// RetryAfter is how long to wait before another send. Only of Throttled.
	RetryAfter time.Duration

	Primary   error // the last error of the primary, perhaps for another message; nil without one
	Secondary error // the last error of the secondary; nil without one
	Context   error // why the caller's context ended; nil if it did not
}

func (e *SendError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "send to %q", e.Entity)
	if e.Context != nil {
		fmt.Fprintf(&b, ": %v", e.Context)
	}
	if e.Primary != nil {
		fmt.Fprintf(&b, ": primary: %v", e.Primary)
	}
	if e.Secondary != nil {
		fmt.Fprintf(&b, ": secondary: %v", e.Secondary)
	}
	if e.Unclear {
		b.WriteString("; the message may be stored: send it again only with the same message ID")
	}
	return b.String()
}

// Unwrap returns the causes: those of both namespaces and the context's.
func (e *SendError) Unwrap() []error {
	var causes []error
	for _, err := range []error{e.Context, e.Primary, e.Secondary} {
		if err != nil {
			causes = append(causes, err)
		}
	}
	return causes
}
