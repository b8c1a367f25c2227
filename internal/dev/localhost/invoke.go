package localhost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/customhandler"
)

// errTimedOut fails an invocation that took longer than functionTimeout.
var errTimedOut = errors.New("timeout value of functionTimeout exceeded; the host kills the handler and everything it has in flight")

// invoke runs one function with an envelope and passes the response to finish,
// unless that is nil. It repeats a failed invocation if the function has a
// retry policy. It returns nil if the last invocation succeeded.
func (h *Host) invoke(ctx context.Context, f *function, reason string, envelope customhandler.Envelope, finish func(customhandler.Answer) error) error {
	if f.retry == nil {
		return h.invokeOnce(ctx, f, reason, envelope, finish)
	}
	limit, last := f.retry.count, error(nil)
	for repeat := 0; ; {
		err := h.invokeOnce(ctx, f, reason, envelope.WithRetry(repeat, limit, last), finish)
		if err == nil {
			return nil
		}
		if repeat == limit {
			h.out.say("Function execution of '%s' failed after '%d' retries.", f.name, repeat)
			return err
		}
		repeat++
		last = err
		delay := f.retry.delay(repeat)
		h.out.say("Waiting for `%s` before retrying function execution of '%s'. Next attempt: '%d'. Max retry count: '%d'.", formatTimeSpan(delay), f.name, repeat, limit)
		if !h.pause(ctx, delay) {
			h.out.say("The host stops and does not retry '%s' again.", f.name)
			return err
		}
	}
}

func (h *Host) invokeOnce(ctx context.Context, f *function, reason string, envelope customhandler.Envelope, finish func(customhandler.Answer) error) error {
	envelope.ID = customhandler.NewInvocationID()
	return h.execute(ctx, f, reason, envelope.ID, func(ctx context.Context, client *customhandler.Client) error {
		answer, err := client.Invoke(ctx, f.name, envelope)
		if err != nil {
			return err
		}
		for _, line := range answer.Logs {
			h.out.say("%s: %s", f.name, line)
		}
		if err := f.checkOutputs(answer); err != nil {
			return err
		}
		if finish == nil {
			return nil
		}
		return finish(answer)
	})
}

// execute runs one invocation in the handler. It waits until a handler is
// ready, enforces functionTimeout, and replaces the handler if that is
// exceeded, as the real host does.
func (h *Host) execute(ctx context.Context, f *function, reason, id string, do func(context.Context, *customhandler.Client) error) error {
	return h.logExecution(f, reason, id, func() error { return h.attempt(ctx, f, do) })
}

// logExecution reports the begin and the end of an invocation.
func (h *Host) logExecution(f *function, reason, id string, run func() error) error {
	begin := time.Now()
	h.out.say("Executing '%s' (Reason='%s', Id=%s)", f.name, reason, id)
	err := run()
	took := time.Since(begin).Round(time.Millisecond)
	if err != nil {
		h.out.say("Executed '%s' (Failed, Id=%s, Duration=%s): %v", f.name, id, took, err)
		return err
	}
	h.out.say("Executed '%s' (Succeeded, Id=%s, Duration=%s)", f.name, id, took)
	return nil
}

func (h *Host) attempt(ctx context.Context, f *function, do func(context.Context, *customhandler.Client) error) error {
	if h.handler == nil {
		return errors.New("no handler is running, because the host found no function when it started")
	}
	p, err := h.handler.acquire(ctx)
	if err != nil {
		return err
	}
	if h.file.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, h.file.timeout, errTimedOut)
		defer cancel()
	}
	err = do(ctx, p.client)
	if errors.Is(err, customhandler.ErrHang) {
		h.out.say("FUNCTION '%s' RETURNED AN EMPTY RESPONSE. The real host now waits for functionTimeout, then kills the handler with all its invocations. Return at least {}.", f.name)
		if !h.strictHang {
			return err
		}
		select {
		case <-ctx.Done():
		case <-p.done:
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errTimedOut):
		h.out.say("Timeout value of %s exceeded by function '%s'. The handler is killed and restarted.", formatTimeSpan(h.file.timeout), f.name)
		p.replace()
		return errTimedOut
	}
	if _, ended := p.exited(); ended {
		return fmt.Errorf("the handler has exited with %s: %w", exitText(p), err)
	}
	return err
}
