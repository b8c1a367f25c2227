// Package otlp is an exporter of spans: it sends them to a collector by OTLP
// over HTTP, as the environment requests with the variables of OpenTelemetry.
// It needs neither gRPC nor the generated code of the protocol. A program that
// does not import it links no exporter.
package otlp

import (
	"log/slog"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// FromEnvironment returns the exporter that the environment requests, or nil if
// it requests none. It sends no request. A wrong setting is logged: it turns the
// exporter off, or its default is used. The exporter logs the spans that it
// cannot send, at most once in ten minutes, and returns no error for them.
func FromEnvironment(env map[string]string, userAgent string, log *slog.Logger) sdk.SpanExporter {
	to := requested(env, log)
	if to == nil {
		return nil
	}
	return &reporting{SpanExporter: newSender(to, userAgent), log: log}
}
