package localhost

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"kennel/internal/customhandler"
)

// errTimedOut fails an invocation that took longer than functionTimeout.
var errTimedOut = errors.New("timeout value of functionTimeout exceeded; the host kills the handler and everything it has in flight")

// invoke runs one function with an envelope and delivers its outputs; finish, which may be nil, is the part
// of the delivery that only the caller can do. nil means that the invocation succeeded as a whole.
func (h *Host) invoke(ctx context.Context, f *function, reason string, envelope customhandler.Envelope, finish func(customhandler.Answer) error) error {
	envelope.ID = customhandler.NewInvocationID()
	return h.execute(ctx, f, reason, envelope.ID, func(ctx context.Context, client *customhandler.Client) error {
		answer, err := client.Invoke(ctx, f.name, envelope)
		if err != nil {
			return err
		}
		for _, line := range answer.Logs {
			h.out.say("%s: %s", f.name, line)
		}
		if err := h.deliver(ctx, f, answer); err != nil || finish == nil {
			return err
		}
		return finish(answer)
	})
}

// execute runs one invocation in the handler: it waits for a handler, keeps functionTimeout, and does what
// the host does when that is exceeded.
func (h *Host) execute(ctx context.Context, f *function, reason, id string, do func(context.Context, *customhandler.Client) error) error {
	begin := time.Now()
	h.out.say("Executing '%s' (Reason='%s', Id=%s)", f.name, reason, id)
	err := h.attempt(ctx, f, do)
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
		return errors.New("there is no handler: no function was found when the host started")
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
		h.out.say("FUNCTION '%s' GAVE AN EMPTY ANSWER. The real host now waits for functionTimeout, then kills the handler with everything it has in flight. Always answer at least {}.", f.name)
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
		h.out.say("Timeout value of %s exceeded by function '%s'. The handler is killed and started again.", formatTimeSpan(h.file.timeout), f.name)
		p.replace()
		return errTimedOut
	}
	if _, gone := p.exited(); gone {
		return fmt.Errorf("the handler has exited with %s: %w", exitText(p), err)
	}
	return err
}

// deliver writes the messages of a function's output bindings, in no order a function may rely on and
// without any transaction: some may be written though a later one fails.
func (h *Host) deliver(ctx context.Context, f *function, answer customhandler.Answer) error {
	for _, b := range f.outputs("queue") {
		messages, err := answer.Messages(customhandler.Output{Name: b.name, Type: "queue", DataType: b.dataType})
		if err != nil {
			return fmt.Errorf("output binding %s: %w", b.name, err)
		}
		for _, message := range messages {
			if err := h.queues.Put(ctx, b.queue, h.file.queues.encode(message)); err != nil {
				return fmt.Errorf("output binding %s: put into queue %q: %w", b.name, b.queue, err)
			}
			h.wake(b.queue)
		}
	}
	for _, b := range f.outputs("serviceBus") {
		messages, err := answer.Messages(customhandler.Output{Name: b.name, Type: "serviceBus", DataType: b.dataType})
		if err != nil {
			return fmt.Errorf("output binding %s: %w", b.name, err)
		}
		if len(messages) > 0 {
			return fmt.Errorf("output binding %s: this local host has no Service Bus to send to", b.name)
		}
	}
	return nil
}

// encode is the form in which a message is stored.
func (s queueSettings) encode(message []byte) string {
	if s.plainText {
		return string(message)
	}
	return base64.StdEncoding.EncodeToString(message)
}
