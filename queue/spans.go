package queue

import "kennel/internal/trace"

// startSpan starts the span of a delivery that has a hand, within the trace of
// its message, and records the receive that is over. A message without a trace
// gets none.
func (d *delivery[T]) startSpan() {
	if d.tracer == nil || !trace.IsOn(d.work) {
		return
	}
	ctx := trace.Within(d.work, d.traceParent())
	_, receive := trace.StartAt(ctx, "receive "+d.p.queue, trace.Client, d.began)
	_, d.lease.span = trace.Start(ctx, "process "+d.p.queue, trace.Consumer)
	d.describe(receive, "receive")
	d.describe(d.lease.span, "process")
	receive.EndAt(d.answered)
}

func (d *delivery[T]) describe(span trace.Span, operation string) {
	span.Text(trace.System, trace.Queues)
	span.Text(trace.Operation, operation)
	span.Text(trace.Queue, d.p.queue)
	span.Text(trace.Message, d.lease.m.ID)
}

// traceParent returns the trace of the message. A panic of the codec is left to
// Decode.
func (d *delivery[T]) traceParent() (parent string) {
	defer func() { _ = recover() }()
	return d.tracer.TraceParent(d.lease.m)
}

// ended records how the delivery ended, and the error of its attempt.
func (d *delivery[T]) ended(outcome string, err error) {
	d.lease.span.Text(trace.Outcome, outcome)
	if err != nil {
		d.lease.span.Fail(err.Error())
	}
}
