// Package telemetry records the traces of a process and passes them to an
// exporter, such as that of package otlp. Spans are sent in the background. A
// span that cannot be sent is dropped: an exporter that hangs costs a bounded
// amount of memory and a line in the log, and delays no request.
package telemetry

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"kennel/internal/trace"
)

// scope names the program as the author of its spans.
const scope = "kennel"

// Process describes the process in its spans.
type Process struct {
	Version  string
	Instance string // as in the status of the app
	Kind     string
}

// Traces sends the spans of a process. Nil sends none.
type Traces struct {
	provider *sdk.TracerProvider
	log      *slog.Logger
}

// Open returns the traces whose spans the exporter sends, or nil if it is nil.
// The variables of OpenTelemetry for samplers, batches and the attributes of the
// process are read from the environment. A wrong one is logged and its default
// is used.
func Open(exporter sdk.SpanExporter, p Process, log *slog.Logger) *Traces {
	if exporter == nil {
		return nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("OpenTelemetry reported an error", "error", err)
	}))
	// The attributes of the environment come last, so that they replace these.
	process, err := resource.New(context.Background(),
		resource.WithAttributes(
			attribute.String("service.name", scope),
			attribute.String("service.version", p.Version),
			attribute.String("service.instance.id", p.Instance),
			attribute.String("kennel.kind", p.Kind)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv())
	if err != nil {
		log.Warn("attributes of traces cannot be read; they are left out", "setting", "OTEL_RESOURCE_ATTRIBUTES", "error", err)
	}
	return &Traces{sdk.NewTracerProvider(
		sdk.WithResource(process),
		sdk.WithBatcher(exporter, inRange(log)),
	), log}
}

// maxQueued is how many spans may wait in memory at most.
const maxQueued = 100_000

// inRange replaces values of settings with which the SDK panics or exports
// without a pause.
func inRange(log *slog.Logger) sdk.BatchSpanProcessorOption {
	replaced := func(setting string, by any) {
		log.Warn("a setting of traces is out of range; another value is used", "setting", setting, "value", by)
	}
	return func(o *sdk.BatchSpanProcessorOptions) {
		if o.MaxQueueSize < 1 || o.MaxQueueSize > maxQueued {
			o.MaxQueueSize = sdk.DefaultMaxQueueSize
			replaced("OTEL_BSP_MAX_QUEUE_SIZE", o.MaxQueueSize)
		}
		if o.MaxExportBatchSize < 1 || o.MaxExportBatchSize > o.MaxQueueSize {
			o.MaxExportBatchSize = min(sdk.DefaultMaxExportBatchSize, o.MaxQueueSize)
			replaced("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", o.MaxExportBatchSize)
		}
		if o.BatchTimeout <= 0 {
			o.BatchTimeout = sdk.DefaultScheduleDelay * time.Millisecond
			replaced("OTEL_BSP_SCHEDULE_DELAY", o.BatchTimeout.Milliseconds())
		}
	}
}

// Context returns a context whose spans are sent.
func (t *Traces) Context(ctx context.Context) context.Context {
	if t == nil {
		return ctx
	}
	return trace.WithTracer(ctx, t.provider.Tracer(scope))
}

// closeTime bounds Close. A stop has other things to do within its limit.
const closeTime = 2 * time.Second

// Close sends the last spans, for two seconds at most.
func (t *Traces) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("cannot send the last traces before the stop; they are lost", "error", err)
	}
}
