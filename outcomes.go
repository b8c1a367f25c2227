package kennel

import (
	"context"
	"log/slog"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/parts"
)

// Reject returns an error after which there is no further attempt: a message
// becomes a dead letter, an item of a batch is rejected, the slot of a timer has
// failed. err may be nil.
//
// It is for what can never succeed because it is wrong, and an operator should
// see it. A business end, such as a declined card, is none: store it and return
// nil.
func Reject(err error) error { return attempt.Reject(err) }

// RetryAfter returns an error of an attempt that failed. The next one follows
// after wait instead of the wait of Retry. err may be nil.
func RetryAfter(wait time.Duration, err error) error { return attempt.RetryAfter(wait, err) }

// Snooze returns an error that is no attempt: the next one follows after wait.
func Snooze(wait time.Duration) error { return attempt.Snooze(wait) }

// The causes of the end of an attempt's context; see [context.Cause]. After a
// stop or a lost lease, every error is put back and counts as no attempt,
// whatever it is: return ctx.Err() or your own.
var (
	ErrStopping  = attempt.ErrStopping
	ErrLeaseLost = attempt.ErrLeaseLost // another process may have the message
	ErrTimeout   = attempt.ErrTimeout   // it wraps context.DeadlineExceeded
)

// PanicError is the panic of a handler, as an error with its stack.
type PanicError = attempt.PanicError

// Outcome is what becomes of an attempt.
type Outcome = attempt.Outcome

// The outcomes.
const (
	Done         = attempt.Done
	Failed       = attempt.Failed
	Rejected     = attempt.Rejected
	RetriedLater = attempt.RetriedLater
	Snoozed      = attempt.Snoozed
	PutBack      = attempt.PutBack
)

// OutcomeOf returns what becomes of an attempt that returned err.
func OutcomeOf(err error) Outcome { return attempt.OutcomeOf(err) }

// Attempt describes an attempt. As a [slog.LogValuer] it is a group.
type Attempt = attempt.Attempt

// Current returns the attempt to which a context belongs.
func Current(ctx context.Context) (Attempt, bool) { return attempt.Current(ctx) }

// Now returns the time of Kennel's clock: the real one, and in a test the one that
// package kenneltest moves.
func Now(ctx context.Context) time.Time { return attempt.Now(ctx) }

// LogHandler returns a handler that adds the attempt of the context to every
// record, as the group "attempt". Behind a Functions host it adds the invocation
// and its function as well, as Kennel's own records have them.
func LogHandler(next slog.Handler) slog.Handler { return parts.LogHandler(next) }
