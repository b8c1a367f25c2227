// Package otlptest is a collector of traces for tests: an OTLP endpoint that
// decodes requests with the messages of the protocol's authors.
package otlptest

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Endpoint is a collector.
type Endpoint struct {
	URL string

	mu       sync.Mutex
	received []Span   // guarded by mu
	problems []string // guarded by mu
}

// Span is a span that was received.
type Span struct {
	Trace, ID, Parent string // hexadecimal; Parent is "" if it began the trace
	Name, Kind        string
	Attributes        map[string]string
	Process           map[string]string // attributes of its process
	Failed            string            // why; "" if it did not fail
	Began, Ended      time.Time
}

// Serve returns an endpoint that ends with the test.
func Serve(t testing.TB) *Endpoint {
	t.Helper()
	e := &Endpoint{}
	server := httptest.NewServer(e)
	e.URL = server.URL
	t.Cleanup(func() {
		server.Close()
		for _, problem := range e.problems {
			t.Error(problem)
		}
	})
	return e
}

// Spans returns the spans that were received so far.
func (e *Endpoint) Spans() []Span {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Span(nil), e.received...)
}

func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := read(r)
	// It has the same fields as the request, ExportTraceServiceRequest, whose
	// package would bring gRPC.
	var request spans.TracesData
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		e.problems = append(e.problems, fmt.Sprintf("%s %s of type %q: %v", r.Method, r.URL, r.Header.Get("Content-Type"), err))
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, process := range request.ResourceSpans {
		for _, scope := range process.ScopeSpans {
			for _, s := range scope.Spans {
				e.received = append(e.received, decode(s, process.Resource.Attributes))
			}
		}
	}
}

// read returns the body of a request.
func read(r *http.Request) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(r.Body)
	}
	text, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(text)
}

func decode(s *spans.Span, process []*common.KeyValue) Span {
	span := Span{
		Trace: fmt.Sprintf("%x", s.TraceId), ID: fmt.Sprintf("%x", s.SpanId), Parent: fmt.Sprintf("%x", s.ParentSpanId),
		Name: s.Name, Kind: s.Kind.String(), Attributes: texts(s.Attributes), Process: texts(process),
		Began: time.Unix(0, int64(s.StartTimeUnixNano)), Ended: time.Unix(0, int64(s.EndTimeUnixNano)),
	}
	if s.Status.GetCode() == spans.Status_STATUS_CODE_ERROR {
		span.Failed = s.Status.Message
	}
	return span
}

func texts(attributes []*common.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, a := range attributes {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			all[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			all[a.Key] = fmt.Sprint(v.IntValue)
		default:
			all[a.Key] = a.Value.String()
		}
	}
	return all
}
