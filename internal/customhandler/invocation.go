package customhandler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// invocation is one call of a function. Its context carries it.
type invocation struct {
	id       string
	function string
	log      *slog.Logger

	mu      sync.Mutex
	open    bool                // outputs can still be added; guarded by mu
	outputs map[string][]string // by binding name; guarded by mu
}

type invocationKey struct{}

func invocationFrom(ctx context.Context) *invocation {
	inv, _ := ctx.Value(invocationKey{}).(*invocation)
	return inv
}

// InvocationID returns the host's id of the invocation that ctx belongs to; "" outside of one.
func InvocationID(ctx context.Context) string {
	if inv := invocationFrom(ctx); inv != nil {
		return inv.id
	}
	return ""
}

// invocationID takes the last id there is: the host appends its own to one that a client sent, as a line of its own or
// after a comma.
func invocationID(h http.Header) string {
	values := h[headerInvocationID]
	if len(values) == 0 {
		return ""
	}
	id := values[len(values)-1]
	if at := strings.LastIndexByte(id, ','); at >= 0 {
		id = id[at+1:]
	}
	const longest = 128 // a GUID has 36; whoever sends more fills our log
	id = strings.TrimSpace(id)
	return id[:min(len(id), longest)]
}

// ErrNoOutputs is what Emit returns where there is no envelope to answer: in an HTTP call that the host forwarded, after
// the answer, or outside of an invocation.
var ErrNoOutputs = errors.New("this invocation has no output bindings")

// Emit adds texts to an output binding of the invocation that ctx belongs to. The host sends them, exactly as they
// are, after the function has returned without an error, and there is no transaction: it may send them and then still
// fail the invocation. A text that is only an ISO date and time is the one thing the host spoils; wrap it in JSON.
func Emit(ctx context.Context, binding string, texts ...string) error {
	inv := invocationFrom(ctx)
	if inv == nil {
		return fmt.Errorf("emit to %q: %w", binding, ErrNoOutputs)
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if !inv.open {
		return fmt.Errorf("emit to %q: %w", binding, ErrNoOutputs)
	}
	if inv.outputs == nil {
		inv.outputs = make(map[string][]string)
	}
	inv.outputs[binding] = append(inv.outputs[binding], texts...)
	return nil
}

// close ends the time for Emit and returns outputs with what was emitted.
func (inv *invocation) close(outputs map[string]json.RawMessage) map[string]json.RawMessage {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.open = false
	for binding, texts := range inv.outputs {
		if outputs == nil {
			outputs = make(map[string]json.RawMessage)
		}
		// Always an array of strings: a bare string that looks like base64 or JSON would be decoded by the host.
		outputs[binding] = encode(append([]string{}, texts...))
	}
	return outputs
}

// soft is when an invocation's context ends, before its time is up for good.
func soft(limit time.Duration) time.Duration { return limit - limit/20 }

// run runs f in a goroutine of its own and returns when it is done, or after limit, whichever comes first. A panic is
// an error. A goroutine that does not care for its context's end is left behind; its result goes nowhere.
func (inv *invocation) run(ctx context.Context, limit time.Duration, f func(context.Context) (Answer, error)) (Answer, error) {
	type result struct {
		answer Answer
		err    error
	}
	inv.mu.Lock()
	inv.open = true
	inv.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, soft(limit))
	defer cancel()
	done := make(chan result, 1) // room for the result nobody waits for any more
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
	last := time.NewTimer(limit)
	defer last.Stop()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-last.C:
		return Answer{}, errLeftBehind(limit)
	}
}

var errGoexit = errors.New("the function ended its goroutine instead of returning")

func errLeftBehind(limit time.Duration) error {
	return fmt.Errorf("the function ignores the end of its context and is left behind after %v: %w", limit, context.DeadlineExceeded)
}

// panicError is a panic of a function, with its stack in one line: the host makes a record of every line on stdout.
type panicError struct {
	value any
	stack string
}

func newPanicError(v any) error {
	if v == http.ErrAbortHandler {
		return http.ErrAbortHandler // no mistake but the way to break an answer off
	}
	return &panicError{v, strings.NewReplacer("\n\t", " ", "\n", " | ").Replace(string(debug.Stack()))}
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

func logFailure(ctx context.Context, log *slog.Logger, message string, err error) {
	if p, ok := errors.AsType[*panicError](err); ok {
		log.ErrorContext(ctx, message, "error", err, "stack", p.stack)
		return
	}
	log.ErrorContext(ctx, message, "error", err)
}
