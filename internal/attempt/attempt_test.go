package attempt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestOutcomes: each answer of a function has its outcome, also wrapped, and also
// after its context ended.
func TestOutcomes(t *testing.T) {
	failure := errors.New("no route to host")
	for _, tt := range []struct {
		name  string
		cause error // of the end of the context; nil: it has not ended
		work  func(context.Context) error
		want  Outcome
		wait  time.Duration
	}{
		{"nil", nil, func(context.Context) error { return nil }, Done, 0},
		{"an error", nil, func(context.Context) error { return failure }, Failed, 0},
		{"a panic", nil, func(context.Context) error { panic("oh") }, Failed, 0},
		{"goexit", nil, func(context.Context) error { runtime.Goexit(); return nil }, Failed, 0},
		{"reject", nil, func(context.Context) error { return fmt.Errorf("order: %w", Reject(failure)) }, Rejected, 0},
		{"reject nil", nil, func(context.Context) error { return Reject(nil) }, Rejected, 0},
		{"retry after", nil, func(context.Context) error { return RetryAfter(time.Minute, failure) }, RetriedLater, time.Minute},
		{"retry after less than nothing", nil, func(context.Context) error { return RetryAfter(-time.Minute, nil) }, RetriedLater, 0},
		{"snooze", nil, func(context.Context) error { return Snooze(time.Hour) }, Snoozed, time.Hour},
		{"snooze for no time", nil, func(context.Context) error { return Snooze(-time.Hour) }, Snoozed, time.Second},
		{"done after a stop", ErrStopping, func(context.Context) error { return nil }, Done, 0},
		{"the context's error after a stop", ErrStopping, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, PutBack, 0},
		{"another error after a stop", ErrStopping, func(context.Context) error { return failure }, PutBack, 0},
		{"a panic after a stop", ErrStopping, func(context.Context) error { panic("closed") }, PutBack, 0},
		{"goexit after a stop", ErrStopping, func(context.Context) error { runtime.Goexit(); return nil }, PutBack, 0},
		{"an error after a lost lease", ErrLeaseLost, func(context.Context) error { return failure }, PutBack, 0},
		{"rejected after a stop", ErrStopping, func(context.Context) error { return Reject(failure) }, Rejected, 0},
		{"snoozed after a stop", ErrStopping, func(context.Context) error { return Snooze(time.Hour) }, Snoozed, time.Hour},
		{"an error after another end", errors.New("shutdown"), func(context.Context) error { return failure }, Failed, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.cause != nil {
				cancel(tt.cause)
			}
			var seen Outcome
			wrap := func(next Work) Work {
				return func(ctx context.Context) error {
					err := next(ctx)
					seen = OutcomeOf(err)
					return err
				}
			}
			check := func(v Verdict) {
				t.Helper()
				if v.Outcome != tt.want || v.Wait != tt.wait || seen != tt.want || (v.Err == nil) != (tt.want == Done) {
					t.Errorf("got %v after %v (%v), the middleware saw %v; want %v after %v", v.Outcome, v.Wait, v.Err, seen, tt.want, tt.wait)
				}
			}
			check(DoApart(ctx, Attempt{}, time.Hour, tt.work, wrap))
			if !strings.HasPrefix(tt.name, "goexit") {
				check(Do(ctx, Attempt{}, time.Hour, tt.work, wrap))
			}
		})
	}
}

// TestTimeout: an attempt that takes too long failed, whatever it returns, and
// its reason says so once.
func TestTimeout(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   func(context.Context) error
		want string
	}{
		{"the context's error", context.Context.Err, "the attempt took longer than its timeout"},
		{"the cause", context.Cause, "the attempt took longer than its timeout"},
		{"a wrapped error", func(ctx context.Context) error { return fmt.Errorf("send the mail: %w", ctx.Err()) }, "the attempt took longer than its timeout: send the mail: context deadline exceeded"},
		{"another error", func(context.Context) error { return errors.New("no route to host") }, "the attempt took longer than its timeout: no route to host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := Do(t.Context(), Attempt{}, time.Minute, func(ctx context.Context) error {
					<-ctx.Done()
					return tt.of(ctx)
				})
				if v.Outcome != Failed || !errors.Is(v.Err, ErrTimeout) || !errors.Is(v.Err, context.DeadlineExceeded) || v.Reason() != tt.want {
					t.Errorf("got %v, %v", v.Outcome, v.Err)
				}
			})
		})
	}
}

// TestPanicHasItsStack: the reason of a panic names the function that panicked.
func TestPanicHasItsStack(t *testing.T) {
	v := Do(t.Context(), Attempt{}, time.Minute, func(context.Context) error { panic(errors.New("nil map")) })
	if reason := v.Reason(); !strings.Contains(reason, "panic: nil map") || !strings.Contains(reason, "TestPanicHasItsStack") {
		t.Errorf("the reason is %s", reason)
	}
}

// TestWraps: the first of the wraps is the outermost, they know the attempt, and
// a panic of one is a failed attempt.
func TestWraps(t *testing.T) {
	var order []string
	wrap := func(name string) func(Work) Work {
		return func(next Work) Work {
			return func(ctx context.Context) error {
				a, _ := Current(ctx)
				order = append(order, name+" "+a.Queue)
				return next(ctx)
			}
		}
	}
	Do(t.Context(), Attempt{Queue: "emails"}, time.Minute, func(context.Context) error { order = append(order, "work"); return nil }, wrap("a"), wrap("b"))
	if want := []string{"a emails", "b emails", "work"}; !slices.Equal(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
	v := Do(t.Context(), Attempt{}, time.Minute, func(context.Context) error { return nil }, func(Work) Work { return func(context.Context) error { panic("oh") } })
	if v.Outcome != Failed {
		t.Errorf("a wrap that panics: %v", v.Outcome)
	}
	v = DoApart(t.Context(), Attempt{}, time.Minute, func(context.Context) error { return nil }, func(Work) Work { return func(context.Context) error { runtime.Goexit(); return nil } })
	if v.Outcome != Failed || !errors.Is(v.Err, ErrGoexit) {
		t.Errorf("a wrap that ends its goroutine: %v, %v", v.Outcome, v.Err)
	}
}

// TestDefaultRetry: the waits double from 2 s to 4 h, and twenty attempts last
// for 14 to 28 hours.
func TestDefaultRetry(t *testing.T) {
	var least, most time.Duration
	for failed := 1; failed < 20; failed++ {
		want := min(2*time.Second<<(failed-1), 4*time.Hour)
		for range 100 {
			if got := DefaultRetry(failed, nil); got < want/2 || got > want {
				t.Fatalf("after %d failed attempts: %v, want %v to %v", failed, got, want/2, want)
			}
		}
		least, most = least+want/2, most+want
	}
	if least < 14*time.Hour || most > 29*time.Hour {
		t.Errorf("attempts last for %v to %v", least, most)
	}
}

// TestRetryFails: a Retry that does not return is logged, and the default wait of
// the caller is used.
func TestRetryFails(t *testing.T) {
	failure := errors.New("no route to host")
	for name, tt := range map[string]struct {
		retry  Retry
		wait   time.Duration
		ok     bool
		logged string
	}{
		"none":     {nil, 0, false, ""},
		"a minute": {func(failed int, err error) time.Duration { return time.Duration(failed) * time.Minute }, 3 * time.Minute, true, ""},
		"negative": {func(int, error) time.Duration { return -time.Minute }, 0, true, ""},
		"panic":    {func(_ int, err error) time.Duration { panic(err) }, 0, false, "panic: no route to host"},
		"goexit":   {func(int, error) time.Duration { runtime.Goexit(); return 0 }, 0, false, ErrGoexit.Error()},
	} {
		var text strings.Builder
		log, a := slog.New(slog.NewTextHandler(&text, nil)), Attempt{Queue: "emails", Number: 3}
		if wait, ok := WaitAfter(t.Context(), log, a, tt.retry, failure); wait != tt.wait || ok != tt.ok {
			t.Errorf("%s: %v, %v", name, wait, ok)
		}
		if got := text.String(); tt.logged == "" && got != "" || tt.logged != "" && (strings.Count(got, "\n") != 1 || !strings.Contains(got, tt.logged) || !strings.Contains(got, "attempt.queue=emails")) {
			t.Errorf("%s: the log is %q, want %q", name, got, tt.logged)
		}
		if wait := WaitOrDefault(t.Context(), log, a, tt.retry, failure); tt.ok && wait != tt.wait || !tt.ok && (wait < 4*time.Second || wait > 8*time.Second) {
			t.Errorf("%s: %v, or else the default", name, wait)
		}
	}
}
