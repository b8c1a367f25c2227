package base

import (
	"context"

	"kennel/internal/trace"
)

// StartSpan starts the span of a step for a batch.
func StartSpan(ctx context.Context, step, batch string) (context.Context, trace.Span) {
	ctx, span := trace.Start(ctx, step, trace.Internal)
	span.Text(trace.Batch, batch)
	return ctx, span
}

// EndSpan ends the span of a step.
func EndSpan(span trace.Span, err error) {
	if err != nil {
		span.Fail(err.Error())
	}
	span.End()
}
