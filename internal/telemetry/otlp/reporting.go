package otlp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
	lost := len(spans)
	part, isPart := errors.AsType[*partly](err)
	if isPart {
		lost = min(lost, part.rejected)
	}
	r.lost += lost
	now := time.Now()
	if !r.reported.IsZero() && now.Sub(r.reported) < reportEvery {
		return nil
	}
	if isPart && r.lost == 0 {
		r.log.Warn("the collector took the traces with a remark", "remark", oneLine(errors.New(part.remark)))
	} else {
		r.log.Warn("cannot send traces; they are lost", "spans", r.lost, "error", oneLine(err))
	}
	r.lost, r.reported = 0, now
	return nil
}

// maxCause is how much of an error is logged, in bytes. It may contain the
// answer of a collector.
const maxCause = 300

func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "") + " …"
	}
	return cmp.Or(text, fmt.Sprintf("%T", err))
}
