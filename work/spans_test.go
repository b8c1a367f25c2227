package work

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"kennel/internal/trace"
	"kennel/queue"
	"kennel/work/internal/format"
)

// TestTrace: all messages of a batch belong to the trace of its submission, and
// so do its report and what the sweep does for it.
func TestTrace(t *testing.T) {
	t.Parallel()
	_, items := someLines(5)
	items[3] = item(3, "fail twice")
	items = append(items, `{"id":"long","do":"`+strings.Repeat(" ", MaxItem-100)+`"}`)
	synctest.Test(t, func(t *testing.T) {
		s, spans := newSite(t, nil, 0), tracetest.NewSpanRecorder()
		in := s.start(nil, nil)
		on := trace.WithTracer(t.Context(), sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test"))
		submit := func(ctx context.Context) Batch {
			t.Helper()
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			batch, _, err := in.Submit(ctx, Submission{Processor: "scripted", Body: strings.NewReader(strings.Join(items, "\n"))})
			if err != nil {
				t.Fatal(err)
			}
			return batch
		}
		request, call := trace.Open(on, "", "submit", trace.Server)
		batch := submit(request)
		call.End()
		id := strings.Split(trace.Parent(request), "-")[1]
		all := []string{"work-0", "work-1", "work-2", "work-3", ExpressQueue}
		check := func(what string, want int) {
			t.Helper()
			n := 0
			for _, name := range all {
				for _, m := range s.queues.All(name) {
					n++
					if e, err := queue.Parse(m.Body); err != nil || !strings.HasPrefix(e.TraceParent, "00-"+id+"-") {
						t.Errorf("%s: a message of %s has the trace %q, %v", what, name, e.TraceParent, err)
					}
				}
			}
			if n != want {
				t.Errorf("%s: %d messages, want %d", what, n, want)
			}
		}
		sweep := func() Swept {
			t.Helper()
			time.Sleep(15 * time.Minute)
			ctx, cancel := context.WithTimeout(on, time.Minute)
			defer cancel()
			swept, err := in.Sweep(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return swept
		}
		work := func(ctx context.Context, names ...string) {
			for _, name := range names {
				messages, err := in.qs.Receive(timed(t, time.Minute), name, 32, 5*time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range messages {
					in.handle(ctx, name, m, 1)
				}
			}
		}
		parcels := batch.Parcels
		check("submitted", parcels)
		s.lose(ExpressQueue)
		if swept := sweep(); swept.Restarted != 1 {
			t.Errorf("swept %+v", swept)
		}
		check("restarted", parcels)
		work(t.Context(), ExpressQueue) // in a process that records nothing
		check("tried", 1)               // the item that failed
		for range 3 {
			work(on, all...)
			time.Sleep(10 * time.Minute)
		}
		if b, err := in.Get(timed(t, time.Minute), batch.ID); err != nil || b.State != Done {
			t.Errorf("batch %+v, %v", b, err)
		}
		steps := make(map[string]int)
		for _, span := range spans.Ended() {
			steps[span.Name()]++
			of := ""
			for _, a := range span.Attributes() {
				if string(a.Key) == trace.Batch {
					of = a.Value.AsString()
				}
			}
			if of != batch.ID || span.SpanContext().TraceID().String() != id || (span.Name() != "submit") != span.Parent().IsValid() {
				t.Errorf("span %s of batch %q, with parent %v", span.Name(), of, span.Parent().SpanID())
			}
		}
		if len(steps) != 3 || steps["submit"] != 1 || steps["restart"] != 1 || steps["gather"] != 1 {
			t.Errorf("spans %v", steps)
		}

		// Without a trace, nothing is recorded.
		before := len(spans.Started())
		submit(on)
		for _, name := range all {
			for _, m := range s.queues.All(name) {
				if strings.Contains(m.Body, "traceparent") {
					t.Errorf("a message without a trace: %.300s", m.Body)
				}
			}
		}
		s.lose(ExpressQueue)
		sweep()
		for range 4 {
			work(on, all...)
			time.Sleep(10 * time.Minute)
		}
		if n := len(spans.Started()); n != before {
			t.Errorf("%d spans without a trace", n-before)
		}
	})
}

// TestInterruptedStepsAreTraced: what the sweep completes belongs to the trace of
// the submission.
func TestInterruptedStepsAreTraced(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	synctest.Test(t, func(t *testing.T) {
		for state, want := range map[State]string{Submitting: "complete", Gathering: "complete gather"} {
			s, spans := newSite(t, nil, 0), tracetest.NewSpanRecorder()
			in := s.start(nil, nil)
			ctx := trace.WithTracer(timed(t, time.Minute), sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test"))
			body, _ := someLines(1)
			batch, _, err := in.Submit(trace.Within(ctx, parent), Submission{Processor: "scripted", Body: strings.NewReader(body)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := in.base.Store.Change(ctx, batch.ID, func(l *format.BatchRow) bool { l.State = state; return true }); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
			if _, err := in.Sweep(trace.WithTracer(timed(t, time.Minute), sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test"))); state == Submitting && err != nil {
				t.Error(err)
			}
			names := ""
			for _, span := range spans.Started() {
				names += " " + span.Name()
				if span.SpanContext().TraceID().String() != parent[3:35] {
					t.Errorf("%s is in another trace", span.Name())
				}
			}
			if strings.TrimSpace(names) != want {
				t.Errorf("%s: spans%s, want %s", state, names, want)
			}
		}
	})
}
