package azure

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"kennel/internal/faultproxy"
	"kennel/internal/storetest"
	"kennel/internal/trace"
	"kennel/queue"
)

// spans keeps the spans of a trace.
type spans struct {
	*tracetest.SpanRecorder
	read int
}

// inTrace returns a context within a trace.
func inTrace(t *testing.T) (context.Context, *spans) {
	recorder := tracetest.NewSpanRecorder()
	ctx := trace.WithTracer(t.Context(), sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test"))
	ctx, request := trace.Open(ctx, "", "request", trace.Server)
	t.Cleanup(request.End)
	return ctx, &spans{SpanRecorder: recorder}
}

func attributesOf(s sdk.ReadOnlySpan) map[string]string {
	of := make(map[string]string)
	for _, a := range s.Attributes() {
		of[string(a.Key)] = fmt.Sprint(a.Value.AsInterface())
	}
	return of
}

// requests returns the requests of the spans since the last call: service,
// operation and status.
func (s *spans) requests(t *testing.T) (requests []string) {
	ended := s.Ended()
	for _, span := range ended[s.read:] {
		of, name, kind := attributesOf(span), span.Name(), trace.Client
		if queue, ok := strings.CutPrefix(name, "publish "); ok {
			name, kind = "queue put", trace.Producer
			if of[trace.Queue] != queue || of[trace.System] != trace.Queues {
				t.Errorf("%s: %v", span.Name(), of)
			}
		}
		if span.SpanKind() != kind || of[trace.Method] == "" || of["server.address"] != "127.0.0.1" || of["azure.service.request.id"] == "" || !span.Parent().IsValid() {
			t.Errorf("%s of kind %v: %v", span.Name(), span.SpanKind(), of)
		}
		requests = append(requests, name+" "+of[trace.Status])
	}
	s.read = len(ended)
	return requests
}

func TestFailedRequestsAreTraced(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fault  faultproxy.Fault
		failed string
	}{
		{"cut", faultproxy.Fault{Cut: true}, "connect to storage"},
		{"busy", faultproxy.Fault{Status: http.StatusServiceUnavailable}, "503"},
		{"denied", faultproxy.Fault{Status: http.StatusForbidden}, "403"},
		{"conflict", faultproxy.Fault{Status: http.StatusConflict}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, traced := inTrace(t)
			proxy, account := throughProxy(t)
			proxy.Add(tt.fault)
			queues := opened(t, account.OpenQueues, &Options{})
			if err := queues.Delete(ctx, storetest.Name(), queue.Message{ID: "m", Receipt: "r"}); err == nil {
				t.Error("no error")
			}
			ended := traced.Ended()
			if len(ended) != 1 || (ended[0].Status().Code == codes.Error) != (tt.failed != "") || !strings.Contains(ended[0].Status().Description, tt.failed) {
				t.Errorf("%d spans, %+v, want one that failed with %q", len(ended), ended[0].Status(), tt.failed)
			}
		})
	}
}

// TestRequestsOutsideOfATrace: what a process does on its own is not recorded.
func TestRequestsOutsideOfATrace(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test")
	queues := opened(t, Account{ConnectionString: storetest.Storage(t).ConnectionString()}.OpenQueues, &Options{})
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	for _, ctx := range []context.Context{
		trace.WithTracer(t.Context(), tracer),
		trace.Within(t.Context(), parent+"1"),
		trace.Within(trace.WithTracer(t.Context(), tracer), parent+"0"),
	} {
		if _, err := queues.Receive(ctx, storetest.Name(), 1, time.Minute); err != nil {
			t.Error(err)
		}
	}
	if n := len(recorder.Started()); n > 0 {
		t.Errorf("%d spans", n)
	}
}
