package worker

import (
	"context"
	"encoding/json"

	"kennel/internal/customhandler"
	"kennel/internal/observe"
	"kennel/internal/trace"
)

// TracedQueue returns the function of a queue with a span for each message that
// belongs to a trace.
func TracedQueue(name string, next func(context.Context, customhandler.QueueMessage) (observe.Ending, error)) func(context.Context, customhandler.QueueMessage) (observe.Ending, error) {
	return func(ctx context.Context, m customhandler.QueueMessage) (observe.Ending, error) {
		if !trace.IsOn(ctx) {
			return next(ctx, m)
		}
		ctx, span := trace.Start(trace.Within(ctx, traceParentOf(m.Text)), "process "+name, trace.Consumer)
		defer span.End()
		span.Text(trace.System, trace.Queues)
		span.Text(trace.Operation, "process")
		span.Text(trace.Queue, name)
		span.Text(trace.Message, m.ID)
		span.Number(trace.Attempt, m.DequeueCount)
		span.Text(trace.Outcome, "done") // unless next reports another one
		result, err := next(ctx, m)
		switch {
		case err != nil:
			span.Text(trace.Outcome, "retried")
			span.Fail(err.Error())
		case result == observe.Retried:
			span.Text(trace.Outcome, "retried")
		case result == observe.PutBack:
			span.Text(trace.Outcome, "returned")
		}
		return result, err
	}
}

// traceParentOf returns the trace of the message with a text. The messages of
// all queues have it in the same member.
func traceParentOf(text string) string {
	var m struct {
		TraceParent string `json:"traceparent"`
	}
	_ = json.Unmarshal([]byte(text), &m) // the receiver of the message returns the error
	return m.TraceParent
}
