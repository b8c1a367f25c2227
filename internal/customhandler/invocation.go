package customhandler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
)

// invocation is one call of a function. Its context carries it.
type invocation struct {
	id       string
	function string
	log      *slog.Logger
}

type invocationKey struct{}

func withInvocation(ctx context.Context, inv *invocation) context.Context {
	return context.WithValue(ctx, invocationKey{}, inv)
}

func invocationFrom(ctx context.Context) *invocation {
	inv, _ := ctx.Value(invocationKey{}).(*invocation)
	return inv
}

// invocationID returns the last id in the header. The host adds its own id
// after one that the client sent, as a second line or after a comma. If no host
// sent a usable one, invocationID makes a new one.
func invocationID(h http.Header) string {
	values := h[headerInvocationID]
	if len(values) == 0 {
		return NewInvocationID()
	}
	id := values[len(values)-1]
	id = strings.TrimSpace(id[strings.LastIndexByte(id, ',')+1:])
	if !isID(id) {
		return NewInvocationID()
	}
	return id
}

// isID reports whether an id can be sent in a header and found in a log. That
// of the host is a GUID.
func isID(id string) bool {
	const maxLength = 128
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return id != "" && len(id) <= maxLength
}

// softLimit is when an invocation's context ends. The rest of the limit is for
// the function to clean up.
func softLimit(limit time.Duration) time.Duration { return limit - limit/20 }

// runLimited runs f in its own goroutine and returns its result, or an error
// when limit has passed. A panic becomes an error. If f ignores the end of its
// context, runLimited abandons the goroutine and drops its result.
func runLimited(ctx context.Context, limit time.Duration, f func(context.Context) (Answer, error)) (Answer, error) {
	type result struct {
		answer Answer
		err    error
	}
	ctx, cancel := context.WithTimeout(ctx, softLimit(limit))
	defer cancel()
	done := make(chan result, 1) // buffered: an abandoned goroutine must not block
	go func() {
		r := result{err: errGoexit}
		defer func() {
			if v := recover(); v != nil {
				r = result{err: newPanicError(v)}
			}
			done <- r
		}()
		answer, err := f(ctx)
		r = result{answer, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-timer.C:
		return Answer{}, errAbandoned(limit)
	}
}

var errGoexit = errors.New("the function ended its goroutine without returning")

func errAbandoned(limit time.Duration) error {
	return fmt.Errorf("the function ignored the end of its context and was abandoned after %v: %w", limit, context.DeadlineExceeded)
}

// panicError is a function's panic. Its stack is one line, because the host
// makes a record of every line on stdout.
type panicError struct {
	value any
	stack string
}

func newPanicError(v any) error {
	return &panicError{v, strings.NewReplacer("\n\t", " ", "\n", " | ").Replace(string(debug.Stack()))}
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

func logFailure(ctx context.Context, log *slog.Logger, message string, err error) {
	attrs := []any{"error", err}
	if p, ok := errors.AsType[*panicError](err); ok {
		attrs = append(attrs, "stack", p.stack)
	}
	log.ErrorContext(ctx, message, attrs...)
}
