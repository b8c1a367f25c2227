package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"kennel/internal/otlptest"
	"kennel/internal/telemetry/otlp"
	"kennel/internal/trace"
)

// open opens the traces that settings request, in the environment of the
// process too, which the SDK reads.
func open(t *testing.T, settings ...string) (*Traces, *bytes.Buffer) {
	t.Helper()
	env := make(map[string]string)
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = value
		t.Setenv(name, value)
	}
	var buf bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&buf, nil))
	return Open(otlp.FromEnvironment(env, "kennel/1.2.3", log), Process{Version: "1.2.3", Instance: "host-1-abc", Kind: "worker"}, log), &buf
}

func record(t *Traces, ctx context.Context, name string) {
	_, span := trace.Open(t.Context(ctx), "", name, trace.Server)
	span.End()
}

// TestTracesAreOff: without an exporter nothing changes.
func TestTracesAreOff(t *testing.T) {
	traces, log := open(t, "OTEL_SERVICE_NAME=app")
	if traces != nil || log.Len() > 0 {
		t.Errorf("traces %v, log %s", traces, log)
	}
	ctx := t.Context()
	if traces.Context(ctx) != ctx {
		t.Error("the context was changed")
	}
	traces.Close()
}

func TestTracesAreSent(t *testing.T) {
	for _, tt := range []struct{ settings, service, log string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT=URL", "kennel", ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=URL/v1/traces OTEL_TRACES_EXPORTER=otlp OTEL_SERVICE_NAME=numbers", "numbers", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=URL/ OTEL_RESOURCE_ATTRIBUTES=service.name=shop,team=a OTEL_EXPORTER_OTLP_COMPRESSION=none", "shop", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=URL/v1/traces OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=gzip", "kennel", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=URL OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "kennel", `"setting":"OTEL_EXPORTER_OTLP_PROTOCOL","value":"http/json"`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=URL OTEL_EXPORTER_OTLP_COMPRESSION=zstd", "kennel", `"setting":"OTEL_EXPORTER_OTLP_COMPRESSION","value":"zstd"`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=URL OTEL_EXPORTER_OTLP_TIMEOUT=10s", "kennel", `"setting":"OTEL_EXPORTER_OTLP_TIMEOUT","value":10000`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=URL OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=0", "kennel", `"setting":"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT","value":10000`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=URL OTEL_EXPORTER_OTLP_TIMEOUT=9000 OTEL_EXPORTER_OTLP_INSECURE=true", "kennel", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=URL OTEL_EXPORTER_OTLP_INSECURE=false", "kennel", `"setting":"OTEL_EXPORTER_OTLP_INSECURE","value":"false"`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=URL OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "kennel", `"setting":"OTEL_EXPORTER_OTLP_PROTOCOL","value":"grpc"`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=URL OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf", "kennel", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=URL OTEL_TRACES_SAMPLER=some", "kennel", "unsupported sampler"},
	} {
		t.Run(tt.settings, func(t *testing.T) {
			endpoint := otlptest.Serve(t)
			traces, log := open(t, strings.Fields(strings.ReplaceAll(tt.settings, "URL", endpoint.URL))...)
			record(traces, t.Context(), "request")
			traces.Close()
			spans := endpoint.Spans()
			if len(spans) != 1 || spans[0].Name != "request" || spans[0].Kind != "SPAN_KIND_SERVER" {
				t.Fatalf("received %+v\n%s", spans, log)
			}
			of := spans[0].Process
			if of["service.name"] != tt.service || of["service.version"] != "1.2.3" || of["service.instance.id"] != "host-1-abc" || of["kennel.kind"] != "worker" {
				t.Errorf("process %v", of)
			}
			if (tt.log == "") != (log.Len() == 0) || !strings.Contains(log.String(), tt.log) {
				t.Errorf("log %s, want %q", log, tt.log)
			}
		})
	}
}

// TestBytesThatAreNotText: an error or an attribute that is not UTF-8, as a
// reply of another program may be, or that is very long, loses no span.
func TestBytesThatAreNotText(t *testing.T) {
	endpoint := otlptest.Serve(t)
	traces, log := open(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint.URL)
	_, span := trace.Open(traces.Context(t.Context()), "", "request", trace.Server)
	span.Text("a", "b\xff")
	span.Fail("no\xff" + strings.Repeat("é", 10_000))
	span.End()
	traces.Close()
	spans := endpoint.Spans()
	if len(spans) != 1 || log.Len() > 0 {
		t.Fatalf("received %+v\n%s", spans, log)
	}
	if s := spans[0]; s.Attributes["a"] != "b\uFFFD" || !strings.HasPrefix(s.Failed, "no\uFFFDéé") || len(s.Failed) > 1100 {
		t.Errorf("attribute %q, failed %.20q, %d bytes", s.Attributes["a"], s.Failed, len(s.Failed))
	}
}

// TestSampler: a caller whose trace is not sampled, as one that Application
// Insights instruments, is recorded if the settings request that.
func TestSampler(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	for sampler, want := range map[string]int{"": 0, "parentbased_always_on": 0, "always_on": 2, "traceidratio": 2, "always_off": 0} {
		t.Run(sampler, func(t *testing.T) {
			endpoint := otlptest.Serve(t)
			traces, _ := open(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint.URL, "OTEL_TRACES_SAMPLER="+sampler)
			ctx, request := trace.Open(traces.Context(t.Context()), parent, "request", trace.Server)
			message, inside := trace.Parent(ctx), trace.Records(ctx)
			_, step := trace.Start(ctx, "step", trace.Internal)
			step.End()
			request.End()
			traces.Close()
			spans := endpoint.Spans()
			if len(spans) != want || (want > 0) != inside || (want > 0) != (message != "") {
				t.Fatalf("%d spans, message in the trace %q, want %d", len(spans), message, want)
			}
			for _, s := range spans {
				if s.Trace != parent[3:35] {
					t.Errorf("%s is in another trace", s.Name)
				}
			}
		})
	}
}

// TestEndpointFails: what an endpoint rejects is lost and logged once, without
// the secrets of the settings.
func TestEndpointFails(t *testing.T) {
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, strings.Repeat("out of disk\n", 100))
	}))
	defer failing.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, tt := range []struct{ url, reason string }{
		{failing.URL, "500 Internal Server Error (body: out of disk out of disk"},
		{gone.URL, "connection refused"},
	} {
		traces, log := open(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+tt.url, "OTEL_EXPORTER_OTLP_HEADERS=api-key=secret")
		for range 3 {
			record(traces, t.Context(), "request")
			if err := traces.provider.ForceFlush(t.Context()); err != nil {
				t.Error(err)
			}
		}
		traces.Close()
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), `"msg":"cannot send traces; they are lost","spans":1`) ||
			!strings.Contains(log.String(), tt.reason) || strings.Contains(log.String(), "secret") || log.Len() > 1000 {
			t.Errorf("log %s, want one line with %q", log, tt.reason)
		}
	}
}

// lockedBuffer is a log that the SDK's goroutine may write to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// exporter is one whose requests a test decides.
type exporter func(ctx context.Context, spans int) error

func (e exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	return e(ctx, len(spans))
}
func (exporter) Shutdown(context.Context) error { return nil }

// TestEndpointHangs: nothing waits for an endpoint that does not answer, what it
// does not take is bounded, and the stop takes two seconds.
func TestEndpointHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		var taken atomic.Int64
		traces := Open(exporter(func(ctx context.Context, spans int) error {
			taken.Add(int64(spans))
			<-ctx.Done()
			return ctx.Err()
		}), Process{}, slog.New(slog.NewJSONHandler(&log, nil)))
		began := time.Now()
		for range 2 * sdk.DefaultMaxQueueSize {
			record(traces, t.Context(), "request")
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("requests waited %v", took)
		}
		traces.Close()
		if took := time.Since(began); took != closeTime {
			t.Errorf("the stop took %v, want %v", took, closeTime)
		}
		if !strings.Contains(log.String(), "cannot send the last traces before the stop; they are lost") {
			t.Errorf("log %s", log.String())
		}
		time.Sleep(time.Hour) // a process would end
		if n := taken.Load(); n >= 2*sdk.DefaultMaxQueueSize {
			t.Errorf("all %d spans were kept", n)
		}
	})
}

// TestOutOfRange sets values with which the SDK panics or exports without a
// pause.
func TestOutOfRange(t *testing.T) {
	for _, setting := range []string{
		"OTEL_BSP_MAX_QUEUE_SIZE=-3", "OTEL_BSP_MAX_QUEUE_SIZE=0", "OTEL_BSP_MAX_QUEUE_SIZE=4611686018427387904",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE=-3", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=0",
		"OTEL_BSP_SCHEDULE_DELAY=-3", "OTEL_BSP_SCHEDULE_DELAY=0",
	} {
		t.Run(setting, func(t *testing.T) {
			traces, log := open(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", setting)
			if traces == nil {
				t.Fatal("they are off")
			}
			traces.Close()
			name, _, _ := strings.Cut(setting, "=")
			if !strings.Contains(log.String(), `out of range; another value is used","setting":"`+name+`","value":`) {
				t.Errorf("log %s", log)
			}
		})
	}
}
