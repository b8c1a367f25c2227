package otlp

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// TestNotRequested: settings that request no exporter, or with which spans would
// be sent to the wrong place or as someone else.
func TestNotRequested(t *testing.T) {
	for _, tt := range []struct {
		settings string
		log      string
	}{
		{"", ""},
		{"OTEL_SERVICE_NAME=app", ""},
		{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://127.0.0.1:1", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_SDK_DISABLED=True", ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1 OTEL_TRACES_EXPORTER=none", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_TRACES_EXPORTER=zipkin", `"setting":"OTEL_TRACES_EXPORTER"`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=127.0.0.1:4318", `"setting":"OTEL_EXPORTER_OTLP_ENDPOINT"`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=secret@host", `"setting":"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_HEADERS=a=b,secret", `"setting":"OTEL_EXPORTER_OTLP_HEADERS"`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_TRACES_HEADERS=api-key=secret%zz", `"setting":"OTEL_EXPORTER_OTLP_TRACES_HEADERS"`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_HEADERS=api(key=secret", `"setting":"OTEL_EXPORTER_OTLP_HEADERS"`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_HEADERS=api-key=secret%0Aa", `"setting":"OTEL_EXPORTER_OTLP_HEADERS"`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_CERTIFICATE=settings.go", `"setting":"OTEL_EXPORTER_OTLP_CERTIFICATE","error":"the address`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=settings.go", `"setting":"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE","error":"the address`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=https://127.0.0.1:1 OTEL_EXPORTER_OTLP_CERTIFICATE=missing.pem", `"setting":"OTEL_EXPORTER_OTLP_CERTIFICATE","error":"open missing.pem`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=https://127.0.0.1:1 OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE=settings.go", `"setting":"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE","error":"the file has no certificate`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=https://127.0.0.1:1 OTEL_EXPORTER_OTLP_CLIENT_KEY=settings.go", `"setting":"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE","error":"it is empty`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=https://127.0.0.1:1 OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=settings.go", `"setting":"OTEL_EXPORTER_OTLP_CLIENT_KEY","error":"it is empty`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=https://127.0.0.1:1 OTEL_EXPORTER_OTLP_CLIENT_KEY=settings.go OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=settings.go", `"setting":"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE","error":"tls`},
	} {
		t.Run(tt.settings, func(t *testing.T) {
			var log bytes.Buffer
			if e := FromEnvironment(settings(tt.settings), "", slog.New(slog.NewJSONHandler(&log, nil))); e != nil {
				t.Errorf("the exporter is %v", e)
			}
			if (tt.log == "") != (log.Len() == 0) || !strings.Contains(log.String(), tt.log) || strings.Contains(log.String(), "secret") {
				t.Errorf("log %s, want %q", &log, tt.log)
			}
		})
	}
}

// failing is an exporter that returns the present error.
type failing struct{ err *error }

func (f failing) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return *f.err }
func (failing) Shutdown(context.Context) error                          { return nil }

// TestFailuresAreLoggedRarely: one line in ten minutes, with the number of the
// spans that were lost since the last one.
func TestFailuresAreLoggedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var failure error
		r := &reporting{SpanExporter: failing{&failure}, log: slog.New(slog.NewJSONHandler(&log, nil))}
		for _, step := range []struct {
			failure error
			want    string
		}{
			{errors.New("a"), `"spans":2,"error":"a"`}, {errors.New("b"), ""}, {nil, ""}, {errors.New("c"), ""}, {errors.New("d\ne"), `"spans":6,"error":"d e"`},
		} {
			failure = step.failure
			log.Reset()
			if err := r.ExportSpans(t.Context(), make([]sdk.ReadOnlySpan, 2)); err != nil {
				t.Error(err)
			}
			if got := log.String(); (step.want == "") != (got == "") || !strings.Contains(got, step.want) {
				t.Errorf("log %q, want %q", got, step.want)
			}
			time.Sleep(3 * time.Minute)
		}
	})
}
