package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/memory"
	"kennel/internal/observe"
	"kennel/internal/trace"
	"kennel/internal/worker"
	"kennel/queue"
	"kennel/work"
)

// recorder returns a context whose spans are kept.
func recorder(ctx context.Context) (context.Context, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return trace.WithTracer(ctx, sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")), spans
}

func attributesOf(s sdk.ReadOnlySpan) map[string]string {
	of := make(map[string]string)
	for _, a := range s.Attributes() {
		of[string(a.Key)] = fmt.Sprint(a.Value.AsInterface())
	}
	return of
}

func newHost(t testing.TB, routes ...edge.Route) *customhandler.App {
	t.Helper()
	host, err := customhandler.New(&customhandler.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	edge.ServeRoutes(host, routes)
	return host
}

// TestCallsAreTraced: each call is a span with its route and status, in the
// trace of its header, forwarded or in an envelope.
func TestCallsAreTraced(t *testing.T) {
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if trace.Parent(r.Context()) == "" {
				t.Error("the route is in no trace")
			}
			switch status {
			case 0:
				panic("out of cheese")
			case 200:
			default:
				customhandler.WriteError(w, r, &customhandler.Error{Status: status, Code: "x", Message: "y"})
			}
		}
	}
	host := newHost(t, edge.Route{Function: "F", Pattern: "GET /api/ok/{name}", Handler: answer(200)}, edge.Route{Function: "F", Pattern: "GET /api/absent", Handler: answer(404)},
		edge.Route{Function: "F", Pattern: "GET /api/busy", Handler: answer(503)}, edge.Route{Function: "F", Pattern: "GET /api/panic", Handler: answer(0)})
	for _, tt := range []struct {
		path, header, name, status, failed string
	}{
		{"/api/ok/a", apptest.SomeParent, "GET /api/ok/{name}", "", ""},
		{"/api/ok/a", "", "GET /api/ok/{name}", "", ""},
		{"/api/ok/a?other=1", "00-x", "GET /api/ok/{name}", "400", ""}, // rejected before its handler
		{"/api/absent", apptest.SomeParent, "GET /api/absent", "404", ""},
		{"/api/busy", apptest.SomeParent, "GET /api/busy", "503", "Service Unavailable"},
		{"/api/panic", apptest.SomeParent, "GET /api/panic", "", "panicked"},
	} {
		for _, envelope := range []bool{false, true} {
			ctx, spans := recorder(t.Context())
			r := httptest.NewRequestWithContext(ctx, "GET", tt.path, nil)
			if tt.header != "" {
				r.Header.Set("Traceparent", tt.header)
			}
			if envelope {
				r = apptest.Enveloped(ctx, "F", (`{"Data":{"req":{"Url":"http://127.0.0.1` + tt.path + `","Method":"GET","Query":{},"Headers":{"traceparent":["` + tt.header + `"]}}},"Metadata":{}}`))
			}
			r.Header.Set("X-Azure-Functions-InvocationId", "0d9f6b1e")
			host.ServeHTTP(httptest.NewRecorder(), r)
			if len(spans.Ended()) != 1 {
				t.Fatalf("%s: %d spans", tt.path, len(spans.Ended()))
			}
			s := spans.Ended()[0]
			of, inTrace := attributesOf(s), s.SpanContext().TraceID().String() == apptest.SomeParent[3:35]
			if s.Name() != tt.name || s.SpanKind() != trace.Server || of[trace.Method] != "GET" || "GET "+of["http.route"] != tt.name || of[trace.Invocation] != "0d9f6b1e" || of[trace.Status] != tt.status || inTrace != (tt.header == apptest.SomeParent) {
				t.Errorf("%s in an envelope %t: %s %v, in the trace %t", tt.path, envelope, s.Name(), of, inTrace)
			}
			if (s.Status().Code == codes.Error) != (tt.failed != "") || !strings.Contains(s.Status().Description, tt.failed) {
				t.Errorf("%s: %+v, want %q", tt.path, s.Status(), tt.failed)
			}
		}
	}
}

// TestInvocationsAreTraced: an invocation of a queue's function is a span in the
// trace of its message.
func TestInvocationsAreTraced(t *testing.T) {
	for _, tt := range []struct {
		text    string
		ending  observe.Ending
		err     error
		outcome string // "": no span
	}{
		{`{"v":1,"traceparent":"` + apptest.SomeParent + `"}`, observe.Done, nil, "done"},
		{`{"v":1,"traceparent":"` + apptest.SomeParent + `"}`, observe.PutBack, nil, "returned"},
		{`{"v":1,"traceparent":"` + apptest.SomeParent + `"}`, observe.Done, errors.New("broken"), "retried"},
		{`{"v":1}`, observe.Done, nil, ""}, {`{"v":1,"traceparent":7}`, observe.Done, nil, ""}, {`{"traceparent":"x"}`, observe.Done, errors.New("broken"), ""}, {"!", observe.Done, nil, ""}, {"", observe.PutBack, nil, ""},
	} {
		ctx, spans := recorder(t.Context())
		calls := 0
		function := worker.TracedQueue("work-0", func(ctx context.Context, m customhandler.QueueMessage) (observe.Ending, error) {
			calls++
			return tt.ending, tt.err
		})
		for _, ctx := range []context.Context{t.Context(), ctx} {
			if ended, err := function(ctx, customhandler.QueueMessage{Text: tt.text, ID: "m", DequeueCount: 3}); ended != tt.ending || err != tt.err {
				t.Errorf("%s: %v, %v, want %v, %v", tt.text, ended, err, tt.ending, tt.err)
			}
		}
		if calls != 2 || (len(spans.Ended()) == 1) != (tt.outcome != "") {
			t.Fatalf("%s: %d calls, %d spans", tt.text, calls, len(spans.Ended()))
		}
		if tt.outcome == "" {
			continue
		}
		s := spans.Ended()[0]
		if of := attributesOf(s); s.Name() != "process work-0" || s.Parent().SpanID().String() != apptest.SomeParent[36:52] || of[trace.Outcome] != tt.outcome || of[trace.Attempt] != "3" ||
			of[trace.Message] != "m" || (s.Status().Code == codes.Error) != (tt.err != nil) {
			t.Errorf("%s: %v %+v", s.Name(), of, s.Status())
		}
	}
}

// TestTraceOfABatch: from its submission to its report, a batch is one trace,
// whether workers or functions process it.
func TestTraceOfABatch(t *testing.T) {
	for kind, want := range map[string][]string{
		"worker":    {"receive work-express"},
		"functions": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, spans := recorder(t.Context())
			ctx, stop := context.WithTimeout(ctx, time.Hour)
			defer stop()
			queues := memory.NewQueues(nil)
			b := newMemoryBatches(t, queues, nil)
			host := newHost(t, b.Routes()...)
			b.Functions(host)
			r := httptest.NewRequestWithContext(ctx, "POST", "/api/batches?processor=billing", strings.NewReader(apptest.Items(3)))
			r.Header.Set("Content-Type", api.NdjsonMedia)
			r.Header.Set("Traceparent", apptest.SomeParent)
			w := httptest.NewRecorder()
			if host.ServeHTTP(w, r); w.Code != 202 {
				t.Fatalf("submit: %d %s", w.Code, w.Body)
			}
			if kind == "worker" {
				runWorkerOf(t, ctx, b)
			} else {
				deliver(t, ctx, host, queues)
			}
			names := make(map[string]int)
			ids := map[string]bool{apptest.SomeParent[36:52]: true}
			for _, s := range spans.Ended() {
				names[s.Name()]++
				ids[s.SpanContext().SpanID().String()] = true
			}
			for _, s := range spans.Ended() {
				if s.SpanContext().TraceID().String() != apptest.SomeParent[3:35] || !ids[s.Parent().SpanID().String()] {
					t.Errorf("%s: trace %v, parent %v", s.Name(), s.SpanContext().TraceID(), s.Parent().SpanID())
				}
				if of := attributesOf(s); !strings.HasPrefix(s.Name(), "receive") && (of[trace.Batch] == "" || s.Status().Code == codes.Error) || strings.HasPrefix(s.Name(), "process") && of[trace.Outcome] != "done" {
					t.Errorf("%s: %v %+v", s.Name(), of, s.Status())
				}
			}
			want = append(want, "POST /api/batches", "process work-express", "gather")
			for _, name := range want {
				if names[name] != 1 {
					t.Errorf("%s: %d spans %q", kind, names[name], name)
				}
			}
			if len(names) != len(want) {
				t.Errorf("%s: spans %v, want %v", kind, names, want)
			}
		})
	}
}

// runWorkerOf runs the listener of a worker until the queues are empty.
func runWorkerOf(t *testing.T, ctx context.Context, b *memoryBatches) {
	t.Helper()
	cfg, err := config.Load(map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.listen(worker.NewListening(cfg, nil, func(error) {}, b.batchWork.log)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.listener.Run(ctx) }()
	time.Sleep(10 * time.Minute)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// deliver delivers the parcels of ExpressQueue to their function as the host
// does.
func deliver(t *testing.T, ctx context.Context, host *customhandler.App, queues *memory.Queues) {
	t.Helper()
	const function = "ProcessWorkExpress"
	messages, err := queues.Receive(ctx, work.ExpressQueue, queue.MaxReceive, time.Minute)
	if err != nil || len(messages) == 0 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	for _, m := range messages {
		text, err := worker.TextOf(m.Body)
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(customhandler.Trigger{Function: function, Binding: "message"}.Queue(customhandler.QueueMessage{Text: text, ID: m.ID, DequeueCount: 1}))
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		if host.ServeHTTP(w, apptest.Enveloped(ctx, function, string(body))); w.Code != 200 {
			t.Errorf("%s: %d %s", function, w.Code, w.Body)
		}
	}
}
