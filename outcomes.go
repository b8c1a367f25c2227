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
// after wait instead of the wait of Retry: up to 7 days for a message, and up to a
// day for an item of a batch. err may be nil.
func RetryAfter(wait time.Duration, err error) error { return attempt.RetryAfter(wait, err) }

// Snooze returns an error that is no attempt: the next one follows after wait,
// from a second up to 7 days for a message, and up to a day for an item of a batch.
func Snooze(wait time.Duration) error { return attempt.Snooze(wait) }

// The causes of the end of an attempt's context; see [context.Cause]. After a
// stop or a lost lease, every error is put back and counts as no attempt,
// whatever it is: return ctx.Err() or your own.
var (
	ErrStopping  = attempt.ErrStopping
	ErrLeaseLost = attempt.ErrLeaseLost // another process may have the message
	ErrTimeout   = attempt.ErrTimeout   // it wraps context.DeadlineExceeded
)

// PanicError is the panic of a handler, as an error. Its fields are
//
//	Value any    // of the panic
//	Stack []byte // where it was
type PanicError = attempt.PanicError

// Outcome is what becomes of an attempt.
type Outcome int

// The outcomes, with the numbers of package attempt.
const (
	Done         Outcome = iota
	Failed               // tried again after a wait, until the attempts are used up
	Rejected             // by [Reject]: no further attempt
	RetriedLater         // by [RetryAfter]: failed, and tried again after its wait
	Snoozed              // by [Snooze]: no attempt, and tried again after its wait
	PutBack              // by a stop or a lost lease: no attempt
)

// String implements [fmt.Stringer].
func (o Outcome) String() string { return attempt.Outcome(o).String() }

// OutcomeOf returns what becomes of an attempt that returned err.
func OutcomeOf(err error) Outcome { return Outcome(attempt.OutcomeOf(err)) }

// Attempt describes an attempt. Fields that do not apply are zero.
type Attempt struct {
	Queue     string // the declared queue
	Timer     string
	Processor string
	Batch     string // of which Item is an item
	Item      string

	ID          string    // of the message; the same in all its attempts, and of its dead letter
	Number      int       // counts from 1
	MaxAttempts int       // then the message becomes a dead letter
	SentAt      time.Time // of the message
	Slot        time.Time // of the timer: the key for what must happen once
}

// LogValue implements [slog.LogValuer]: in a log an attempt is a group.
func (a Attempt) LogValue() slog.Value { return attempt.Attempt(a).LogValue() }

// Current returns the attempt to which a context belongs.
func Current(ctx context.Context) (Attempt, bool) {
	a, ok := attempt.Current(ctx)
	return Attempt(a), ok
}

// Now returns the time of Kennel's clock: the real one, and in a test the one that
// package kenneltest moves.
func Now(ctx context.Context) time.Time { return attempt.Now(ctx) }

// LogHandler returns a handler that adds the attempt of the context to every
// record, as the group "attempt". Behind a Functions host it adds the invocation
// and its function as well, as Kennel's own records have them.
func LogHandler(next slog.Handler) slog.Handler { return parts.LogHandler(next) }
