package telemetry

import (
	"context"
	"log/slog"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// reportEvery is how often lost spans are logged at most.
const reportEvery = 10 * time.Minute

// reporting is an exporter that logs its failures rarely. One goroutine calls
// it at a time.
type reporting struct {
	sdk.SpanExporter
	log      *slog.Logger
	lost     int       // spans that were not sent since the last line
	reported time.Time // when the last line was logged
}

// ExportSpans implements [sdk.SpanExporter]. Its error is always nil: the SDK
// would only pass it to its own log.
func (r *reporting) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	r.lost += len(spans)
	if now := time.Now(); r.reported.IsZero() || now.Sub(r.reported) >= reportEvery {
		r.log.Warn("cannot send traces; they are lost", "spans", r.lost, "error", oneLine(err))
		r.lost, r.reported = 0, now
	}
	return nil
}
