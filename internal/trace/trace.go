// Package trace records the steps of a request as spans of OpenTelemetry, and
// carries the identity of a trace in messages.
//
// The tracer travels in the context: [WithTracer] adds it to the contexts of a
// whole process. Without it nothing is recorded, at the cost of a lookup.
//
// A trace begins with a request from outside ([Open]). All other spans
// ([Start]) belong to a trace that is sampled, so the work of a process on its
// own, such as polling, causes none. A message keeps the trace of its sender as
// the traceparent of W3C's Trace Context ([Parent]), and its receiver continues
// that trace ([Within]), also if it records nothing itself.
package trace

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Kind is the role of a span.
type Kind = trace.SpanKind

// The kinds of spans.
const (
	Internal = trace.SpanKindInternal
	Server   = trace.SpanKindServer   // answers a request
	Client   = trace.SpanKindClient   // sends a request
	Producer = trace.SpanKindProducer // puts a message
	Consumer = trace.SpanKindConsumer // does the work of a message
)

// Attributes that spans of several packages have. Those without the prefix
// kennel are named by OpenTelemetry.
const (
	System     = "messaging.system"
	Queue      = "messaging.destination.name"
	Message    = "messaging.message.id" // of the store
	Operation  = "messaging.operation.type"
	Method     = "http.request.method"
	Status     = "http.response.status_code"
	Invocation = "faas.invocation_id" // of the Functions host
	Attempt    = "kennel.attempt"     // of the work of a message, from 1
	Outcome    = "kennel.outcome"     // of the work of a message
	Batch      = "kennel.batch"
)

// Queues is the value of System.
const Queues = "azure_queue_storage"

// traceParent is the name of the header.
const traceParent = "traceparent"

type tracerKey struct{}

// WithTracer returns a context whose spans are started by a tracer.
func WithTracer(ctx context.Context, tracer trace.Tracer) context.Context {
	return context.WithValue(ctx, tracerKey{}, tracer)
}

func tracerOf(ctx context.Context) trace.Tracer {
	tracer, _ := ctx.Value(tracerKey{}).(trace.Tracer)
	return tracer
}

// IsOn reports whether ctx has a tracer.
func IsOn(ctx context.Context) bool { return tracerOf(ctx) != nil }

// Records reports whether [Start] starts a span.
func Records(ctx context.Context) bool {
	return trace.SpanContextFromContext(ctx).IsSampled() && IsOn(ctx)
}

// Parent returns the traceparent for messages that ctx causes; "" outside of a
// sampled trace.
func Parent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, header)
	return header[traceParent]
}

// Within returns ctx within the trace of a traceparent, unless ctx is within a
// trace or the text is not a traceparent.
func Within(ctx context.Context, parent string) context.Context {
	if parent == "" || trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceParent: parent})
}

// Open starts a span for a request from outside: within the trace of its
// traceparent, or else in a new trace.
func Open(ctx context.Context, parent, name string, kind Kind) (context.Context, Span) {
	tracer := tracerOf(ctx)
	if tracer == nil {
		return ctx, Span{}
	}
	ctx, span := tracer.Start(Within(ctx, parent), name, trace.WithSpanKind(kind))
	return ctx, Span{span}
}

// Start starts a span within the trace of ctx. Outside of a sampled trace it
// starts none.
func Start(ctx context.Context, name string, kind Kind) (context.Context, Span) {
	return StartAt(ctx, name, kind, time.Now())
}

// StartAt is Start for a span that began earlier.
func StartAt(ctx context.Context, name string, kind Kind, at time.Time) (context.Context, Span) {
	if !Records(ctx) {
		return ctx, Span{}
	}
	ctx, span := tracerOf(ctx).Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(at))
	return ctx, Span{span}
}

// Span is one step of a trace. The zero Span records nothing.
type Span struct{ span trace.Span }

// Current returns the span of ctx.
func Current(ctx context.Context) Span {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		return Span{span}
	}
	return Span{}
}

// Around returns ctx within the span.
func (s Span) Around(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// Text sets an attribute.
func (s Span) Text(key, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(key, valid(value)))
	}
}

// Number sets an attribute.
func (s Span) Number(key string, value int64) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int64(key, value))
	}
}

// maxReason is how much of a reason is recorded, in bytes. An error may contain
// the answer of another program.
const maxReason = 1000

// Fail records why the step failed.
func (s Span) Fail(reason string) {
	if s.span != nil {
		if len(reason) > maxReason {
			reason = reason[:maxReason] + " …"
		}
		s.span.SetStatus(codes.Error, valid(reason))
	}
}

// valid replaces bytes that are not UTF-8. They would make an exporter drop the
// span, with all others that it sends at the same time.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// End ends the span.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// EndAt ends a span that ended earlier.
func (s Span) EndAt(at time.Time) {
	if s.span != nil {
		s.span.End(trace.WithTimestamp(at))
	}
}
