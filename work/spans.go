package work

import (
	"context"

	"kennel/internal/trace"
)

// startSpan starts the span of a step for a batch.
func startSpan(ctx context.Context, step, batch string) (context.Context, trace.Span) {
	ctx, span := trace.Start(ctx, step, trace.Internal)
	span.Text(trace.Batch, batch)
	return ctx, span
}

// endSpan ends the span of a step.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.Fail(err.Error())
	}
	span.End()
}
