package trace_test

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"kennel/internal/trace"
)

const (
	parent  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsaved = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00" // not sampled
)

// recorder returns a context whose spans are kept.
func recorder(t *testing.T) (context.Context, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return trace.WithTracer(t.Context(), sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")), spans
}

func TestPropagation(t *testing.T) {
	ctx, spans := recorder(t)
	ctx, request := trace.Open(ctx, parent, "request", trace.Server)
	message := trace.Parent(ctx)

	// Another process, which records.
	other, theirs := recorder(t)
	other, work := trace.Start(trace.Within(other, message), "work", trace.Consumer)
	work.End()
	request.End()

	got, next := spans.Ended()[0], theirs.Ended()[0]
	if id := "0af7651916cd43dd8448eb211c80319c"; got.SpanContext().TraceID().String() != id || next.SpanContext().TraceID().String() != id {
		t.Errorf("traces %v and %v, want %s", got.SpanContext().TraceID(), next.SpanContext().TraceID(), id)
	}
	if got.Parent().SpanID().String() != "b7ad6b7169203331" || next.Parent().SpanID() != got.SpanContext().SpanID() {
		t.Errorf("parents %v and %v", got.Parent().SpanID(), next.Parent().SpanID())
	}
	if again := trace.Within(other, parent); again != other {
		t.Error("a ctx within a trace was changed")
	}

	// A third one, which does not record, passes the trace on.
	if got := trace.Parent(trace.Within(t.Context(), message)); got != message {
		t.Errorf("passed on %q, want %q", got, message)
	}
}

func TestNothingIsRecorded(t *testing.T) {
	on, spans := recorder(t)
	for name, ctx := range map[string]context.Context{
		"without a tracer": trace.Within(t.Context(), parent),
		"without a trace":  on,
		"not sampled":      trace.Within(on, unsaved),
		"no hexadecimals":  trace.Within(on, "00-xyz-b7ad6b7169203331-01"),
		"zeros":            trace.Within(on, "00-00000000000000000000000000000000-b7ad6b7169203331-01"),
		"cut":              trace.Within(on, parent[:50]),
		"long":             trace.Within(on, parent+"01"),
	} {
		got, span := trace.Start(ctx, name, trace.Internal)
		span.Text("key", "value")
		span.Number("key", 1)
		span.Fail("reason")
		span.End()
		span.EndAt(time.Now())
		if got != ctx || span.Around(ctx) != ctx || trace.Records(ctx) || trace.Current(ctx) != (trace.Span{}) {
			t.Errorf("%s: a span was started", name)
		}
	}
	for _, text := range []string{"", "x", unsaved} {
		if got := trace.Parent(trace.Within(on, text)); got != "" {
			t.Errorf("%q is passed on as %q", text, got)
		}
	}
	if n := len(spans.Started()); n > 0 {
		t.Errorf("%d spans", n)
	}
	// A request from outside with a broken header begins a trace.
	ctx, span := trace.Open(on, "x", "request", trace.Server)
	span.End()
	if len(spans.Ended()) != 1 || trace.Parent(ctx) == "" {
		t.Error("no trace was begun")
	}
}

func TestSpan(t *testing.T) {
	ctx, spans := recorder(t)
	ctx, request := trace.Open(ctx, "", "request", trace.Server)
	trace.Current(ctx).Text(trace.Batch, "b")
	began := time.Now().Add(-time.Minute)
	_, span := trace.StartAt(ctx, "earlier", trace.Client, began)
	span.Number(trace.Attempt, 2)
	span.Fail("reason")
	span.EndAt(began.Add(time.Second))
	request.End()
	got := spans.Ended()
	if a := got[1].Attributes(); len(a) != 1 || string(a[0].Key) != trace.Batch || a[0].Value.AsString() != "b" {
		t.Errorf("attributes %v", a)
	}
	if s := got[0]; !s.StartTime().Equal(began) || s.EndTime().Sub(began) != time.Second || s.Status() != (sdk.Status{Code: codes.Error, Description: "reason"}) ||
		s.SpanKind() != trace.Client || s.Attributes()[0].Value.AsInt64() != 2 || s.Parent().SpanID() != got[1].SpanContext().SpanID() {
		t.Errorf("%+v", s)
	}
}

// TestOffCostsNothing: what runs for each request and message allocates nothing
// without a tracer.
func TestOffCostsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if n := testing.AllocsPerRun(100, func() {
		ctx, span := trace.Start(trace.Within(ctx, ""), "work", trace.Consumer)
		_, open := trace.Open(ctx, parent, "request", trace.Server)
		if trace.IsOn(ctx) || trace.Records(ctx) || trace.Parent(ctx) != "" {
			t.Error("on")
		}
		for _, s := range []trace.Span{span, open, trace.Current(ctx)} {
			s.Text(trace.Queue, "work-0")
			s.Number(trace.Attempt, 1)
			s.End()
		}
	}); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
