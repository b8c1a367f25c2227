// Package attempt makes attempts: it calls the function of a program's author
// for one message, one slot of a timer or one item of a batch, and decides what
// becomes of it. It knows no store: its callers carry the verdict out.
package attempt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"kennel/queue"
)

// Work is one attempt.
type Work func(context.Context) error

// Attempt describes an attempt. Members that do not apply are zero.
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

// LogValue implements [slog.LogValuer].
func (a Attempt) LogValue() slog.Value {
	var attrs []slog.Attr
	for _, text := range []struct{ key, value string }{
		{"queue", a.Queue}, {"timer", a.Timer}, {"processor", a.Processor}, {"batch", a.Batch}, {"item", a.Item}, {"message", a.ID},
	} {
		if text.value != "" {
			attrs = append(attrs, slog.String(text.key, text.value))
		}
	}
	if !a.Slot.IsZero() {
		attrs = append(attrs, slog.Time("slot", a.Slot))
	}
	return slog.GroupValue(append(attrs, slog.Int("attempt", a.Number))...)
}

type attemptKey struct{}

// With returns a context of an attempt.
func With(ctx context.Context, a Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// Current returns the attempt to which a context belongs.
func Current(ctx context.Context) (Attempt, bool) {
	a, ok := ctx.Value(attemptKey{}).(Attempt)
	return a, ok
}

type clockKey struct{}

// WithClock returns a context whose time is that of a clock, as tests move it.
func WithClock(ctx context.Context, now func() time.Time) context.Context {
	return context.WithValue(ctx, clockKey{}, now)
}

// Now returns the time of the context's clock, or the real one.
func Now(ctx context.Context) time.Time {
	if now, ok := ctx.Value(clockKey{}).(func() time.Time); ok {
		return now()
	}
	return time.Now()
}

// The causes of an attempt's context that ended, as [context.Cause] returns
// them.
var (
	// ErrStopping reports that the process stops.
	ErrStopping = queue.ErrStopped

	// ErrLeaseLost reports that another process may have the message or slot.
	ErrLeaseLost = queue.ErrLeaseLost

	// ErrTimeout reports that the attempt took longer than its timeout. It is a
	// [context.DeadlineExceeded].
	ErrTimeout error = timeoutError{}
)

// timeoutError does not repeat the text of [context.DeadlineExceeded], which the
// error of the function often has as well.
type timeoutError struct{}

func (timeoutError) Error() string { return "the attempt took longer than its timeout" }
func (timeoutError) Unwrap() error { return context.DeadlineExceeded }

// ErrGoexit reports that the function ended its goroutine without returning, as
// [testing.T.FailNow] does.
var ErrGoexit = errors.New("the function ended its goroutine (runtime.Goexit)")

// PanicError is a panic of the function, as an error.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error.
func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Outcome is what becomes of an attempt.
type Outcome int

// The outcomes.
const (
	Done         Outcome = iota
	Failed               // tried again after a wait, until the attempts are used up
	Rejected             // by [Reject]: no further attempt
	RetriedLater         // by [RetryAfter]: failed, and tried again after the wait that it names
	Snoozed              // by [Snooze]: no attempt; tried again after the wait that it names
	PutBack              // by a stop or a lost lease: no attempt
)

// String implements [fmt.Stringer].
func (o Outcome) String() string {
	names := [...]string{"done", "failed", "rejected", "retried later", "snoozed", "put back"}
	if o < 0 || int(o) >= len(names) {
		return fmt.Sprintf("Outcome(%d)", int(o))
	}
	return names[o]
}

// decided is an error that decides the outcome.
type decided struct {
	outcome Outcome
	wait    time.Duration
	err     error // nil: none
}

func (d *decided) Error() string {
	text := d.outcome.String()
	if d.outcome == RetriedLater || d.outcome == Snoozed {
		text += fmt.Sprintf(" (after %v)", d.wait)
	}
	if d.err != nil {
		text += ": " + d.err.Error()
	}
	return text
}

func (d *decided) Unwrap() error { return d.err }

// Reject returns an error that ends all attempts. err may be nil.
func Reject(err error) error { return &decided{Rejected, 0, err} }

// RetryAfter returns an error that fails the attempt; the next one follows after
// wait. err may be nil.
func RetryAfter(wait time.Duration, err error) error {
	return &decided{RetriedLater, max(wait, 0), err}
}

// minSnooze keeps a message that is not counted from being tried in a loop
// without a pause.
const minSnooze = time.Second

// Snooze returns an error that is no attempt; the next one follows after wait.
func Snooze(wait time.Duration) error { return &decided{Snoozed, max(wait, minSnooze), nil} }

// OutcomeOf returns what becomes of an attempt that returned err.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Done
	}
	if d, ok := errors.AsType[*decided](err); ok {
		return d.outcome
	}
	return Failed
}

// Verdict is what becomes of an attempt.
type Verdict struct {
	Outcome Outcome
	Wait    time.Duration // of RetriedLater and Snoozed
	Err     error         // nil if the attempt is done
}

// VerdictOf returns the verdict on an attempt that returned err.
func VerdictOf(err error) Verdict {
	v := Verdict{Outcome: OutcomeOf(err), Err: err}
	if d, ok := errors.AsType[*decided](err); ok {
		v.Wait = d.wait
	}
	return v
}

// Reason returns the text for a dead letter or a log line: the error, and the
// stack of a panic.
func (v Verdict) Reason() string {
	if v.Err == nil {
		return ""
	}
	text := v.Err.Error()
	if d, ok := v.Err.(*decided); ok && d.err != nil && d.outcome == Rejected {
		text = d.err.Error()
	}
	if p, ok := errors.AsType[*PanicError](v.Err); ok {
		text += "\n" + string(p.Stack)
	}
	return text
}

// Do makes one attempt within a timeout and returns what becomes of it. wraps
// are around the work, the first one outermost. A panic of the work reaches them
// as a [*PanicError], and the end of the context by a stop or a lost lease as an
// error whose outcome is PutBack.
func Do(ctx context.Context, a Attempt, timeout time.Duration, work Work, wraps ...func(Work) Work) Verdict {
	return do(ctx, a, timeout, guarded, work, wraps)
}

// DoApart is [Do] in a goroutine of its own, so that the attempt fails with
// [ErrGoexit] if the work ends its goroutine. The loops of timers need that. A
// message has a goroutine, and is received again; one more would cost it a third
// of its rate.
func DoApart(ctx context.Context, a Attempt, timeout time.Duration, work Work, wraps ...func(Work) Work) Verdict {
	return do(ctx, a, timeout, apart, work, wraps)
}

func do(ctx context.Context, a Attempt, timeout time.Duration, safe func(Work) Work, work Work, wraps []func(Work) Work) Verdict {
	ctx, cancel := context.WithTimeoutCause(With(ctx, a), timeout, ErrTimeout)
	defer cancel()
	work = guarded(judged(safe(work)))
	for i := len(wraps) - 1; i >= 0; i-- {
		work = safe(wraps[i](work))
	}
	return VerdictOf(work(ctx))
}

// apart returns work that has a goroutine of its own.
func apart(work Work) Work {
	return func(ctx context.Context) error {
		ended := make(chan error, 1)
		go Run(func() error { return work(ctx) }, func(err error) { ended <- err })
		return <-ended
	}
}

// Run runs f and calls ended with its error: a [*PanicError] if it panics, and
// [ErrGoexit] if it ends its goroutine. A goroutine that runs code of the
// program's author begins with it.
func Run(f func() error, ended func(error)) {
	err := ErrGoexit
	defer func() { ended(err) }()
	err = caught(f)
}

// guarded returns work whose panics are errors.
func guarded(work Work) Work {
	return func(ctx context.Context) error { return caught(func() error { return work(ctx) }) }
}

func caught(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{r, debug.Stack()}
		}
	}()
	return f()
}

// judged returns work whose errors after a stop or a lost lease are put back: a
// stop is never an attempt, whatever the function makes of it. What the function
// decides itself holds.
func judged(work Work) Work {
	return func(ctx context.Context) error {
		err := work(ctx)
		if err == nil || OutcomeOf(err) != Failed {
			return err
		}
		cause := context.Cause(ctx)
		switch {
		case errors.Is(cause, ErrStopping), errors.Is(cause, ErrLeaseLost):
			return &decided{PutBack, 0, err}
		case errors.Is(cause, ErrTimeout) && err == context.DeadlineExceeded:
			return ErrTimeout
		case errors.Is(cause, ErrTimeout) && !errors.Is(err, ErrTimeout):
			return fmt.Errorf("%w: %w", ErrTimeout, err)
		}
		return err
	}
}

// The waits of DefaultRetry: with 20 attempts, a message is tried for 14 to 28
// hours.
const (
	firstRetry = 2 * time.Second
	maxRetry   = 4 * time.Hour
)

// Retry is a function of the program's author: it returns the wait after a number
// of failed attempts, of which the last one returned err.
type Retry = func(failed int, err error) time.Duration

// WaitAfter returns the wait after an attempt that failed with err: what retry
// returns. ok is false, and the caller uses the default wait of its kind of work,
// if retry is nil, or if it panics, which is logged.
func WaitAfter(ctx context.Context, log *slog.Logger, a Attempt, retry Retry, err error) (wait time.Duration, ok bool) {
	if retry == nil {
		return 0, false
	}
	failure := apart(func(context.Context) error {
		wait = max(0, retry(a.Number, err))
		return nil
	})(ctx)
	if failure != nil {
		log.ErrorContext(ctx, "Retry failed; using the default wait", "attempt", a, "error", Verdict{Err: failure}.Reason())
		return 0, false
	}
	return wait, true
}

// WaitOrDefault returns the wait that [WaitAfter] returns, or else that of
// [DefaultRetry].
func WaitOrDefault(ctx context.Context, log *slog.Logger, a Attempt, retry Retry, err error) time.Duration {
	if wait, ok := WaitAfter(ctx, log, a, retry, err); ok {
		return wait
	}
	return DefaultRetry(a.Number, err)
}

// DefaultRetry returns the wait after a number of failed attempts: from 2 s,
// doubling to 4 h, of which it takes between a half and all.
func DefaultRetry(failed int, _ error) time.Duration {
	wait := firstRetry
	for ; failed > 1 && wait < maxRetry; failed-- {
		wait *= 2
	}
	wait = min(wait, maxRetry)
	return wait/2 + rand.N(wait/2+1)
}
