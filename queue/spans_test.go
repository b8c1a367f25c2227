package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"kennel/internal/memory"
	"kennel/internal/trace"
	"kennel/queue"
)

// tracedText is a codec of messages with a traceparent before a blank.
type tracedText struct{ queue.Text }

func (tracedText) TraceParent(m queue.Message) string {
	parent, _, ok := strings.Cut(m.Body, " ")
	if !ok {
		panic("out of cheese")
	}
	return parent
}

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
	parent  = "00-" + traceID + "-" + spanID + "-01"
)

// TestSpans: each way in which a delivery with a trace can end is in its spans.
func TestSpans(t *testing.T) {
	errBroken := errors.New("broken")
	for _, tt := range []struct {
		name     string
		work     func(ctx context.Context, attempt int64) error
		fault    func(memory.Call) memory.Fault
		outcomes []string
		failed   string
	}{
		{name: "done", work: func(context.Context, int64) error { return nil }, outcomes: []string{"done"}},
		{name: "fails twice", work: func(_ context.Context, attempt int64) error {
			if attempt < 3 {
				return errBroken
			}
			return nil
		}, outcomes: []string{"retried", "retried", "done"}, failed: "broken"},
		{name: "fails", work: func(context.Context, int64) error { return errBroken }, outcomes: []string{"retried", "retried", "retried", "dead_letter"}, failed: "broken"},
		{name: "is done elsewhere", work: func(ctx context.Context, attempt int64) error {
			if attempt == 1 {
				<-ctx.Done()
			}
			return ctx.Err()
		}, fault: func(c memory.Call) memory.Fault {
			if c.Op == "Update" {
				return memory.Fault{Err: memory.ErrBusy, Lost: true}
			}
			return distant(c)
		}, outcomes: []string{"lost", "done"}, failed: "lease"},
		{name: "is stopped", work: func(ctx context.Context, _ int64) error { <-ctx.Done(); return ctx.Err() }, outcomes: []string{"returned"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fault := tt.fault
				if fault == nil {
					fault = distant
				}
				queues, spans := newQueues(t, fault), tracetest.NewSpanRecorder()
				tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")
				put(t, queues, "work", parent+" hello")
				l, err := queue.NewListener(queues, []string{"work"}, tracedText{}, func(ctx context.Context, d queue.Delivery[string]) error {
					if !strings.HasPrefix(trace.Parent(ctx), "00-"+traceID) || strings.Contains(trace.Parent(ctx), spanID) {
						t.Errorf("the handler works in %q", trace.Parent(ctx))
					}
					return tt.work(ctx, d.Attempt)
				}, &queue.ListenerOptions{MaxAttempts: 4, MaxIdle: time.Second, Drain: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(trace.WithTracer(t.Context(), tracer))
				ended := make(chan error, 1)
				go func() { ended <- l.Run(ctx) }()
				if tt.outcomes[0] == "returned" {
					time.Sleep(5 * time.Second)
				} else {
					await(t, 5*time.Minute, func() bool { return drained(queues, "work")() && len(spans.Started()) == len(spans.Ended()) })
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				var outcomes []string
				for _, s := range spans.Ended() {
					of := make(map[string]string)
					for _, a := range s.Attributes() {
						of[string(a.Key)] = fmt.Sprint(a.Value.AsInterface())
					}
					if s.SpanContext().TraceID().String() != traceID || s.Parent().SpanID().String() != spanID || of[trace.Queue] != "work" || of[trace.Message] == "" {
						t.Errorf("span %s of %v with parent %v: %v", s.Name(), s.SpanContext(), s.Parent().SpanID(), of)
					}
					switch s.Name() {
					case "receive work":
						if took := s.EndTime().Sub(s.StartTime()); s.SpanKind() != trace.Client || took != requestTakes {
							t.Errorf("the receive took %v", took)
						}
					case "process work":
						outcomes = append(outcomes, of[trace.Outcome])
						isFailed := s.Status().Code == codes.Error
						if isFailed != (of[trace.Outcome] != "done" && of[trace.Outcome] != "returned") || isFailed && !strings.Contains(s.Status().Description, tt.failed) {
							t.Errorf("%s: status %+v", of[trace.Outcome], s.Status())
						}
						if s.SpanKind() != trace.Consumer || of[trace.Attempt] != fmt.Sprint(len(outcomes)) {
							t.Errorf("attempt %s, want %d", of[trace.Attempt], len(outcomes))
						}
					default:
						t.Errorf("span %q", s.Name())
					}
				}
				if fmt.Sprint(outcomes) != fmt.Sprint(tt.outcomes) || len(spans.Ended()) != 2*len(outcomes) {
					t.Errorf("outcomes %v in %d spans, want %v", outcomes, len(spans.Ended()), tt.outcomes)
				}
			})
		})
	}
}

// TestNoSpans: messages without a trace, or with a broken one, are worked on as
// before, and so is each message without a tracer.
func TestNoSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, on := range []bool{false, true} {
			queues, spans := newQueues(t, distant), tracetest.NewSpanRecorder()
			ctx := t.Context()
			if on {
				ctx = trace.WithTracer(ctx, sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test"))
			}
			put(t, queues, "work", " none", "00-zz broken", "00-"+traceID+"-"+spanID+"-00 unsampled", "panics")
			var ran runs
			l, err := queue.NewListener(queues, []string{"work"}, tracedText{}, func(_ context.Context, d queue.Delivery[string]) error {
				ran.begin("all")
				return nil
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- l.Run(ctx) }()
			await(t, time.Minute, drained(queues, "work"))
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if n := len(spans.Started()); n > 0 || ran.of("all") != 4 {
				t.Errorf("%d spans of %d messages, want 4 messages without spans", n, ran.of("all"))
			}
		}
	})
}
