package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"

	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/telemetry"
	"kennel/internal/trace"
	"kennel/internal/version"
)

// openTraces returns the traces of a process if the settings request them.
func openTraces(cfg config.Config, kind, name string, log *slog.Logger) *telemetry.Traces {
	return telemetry.Open(cfg.OpenTelemetry, telemetry.Process{Version: version.Read().Version, Instance: name, Kind: kind}, log)
}

// traced is a route whose calls are spans if traces are on.
type traced struct{ *route }

func (t traced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !trace.IsOn(r.Context()) {
		t.route.ServeHTTP(w, r)
		return
	}
	ctx, span := trace.Open(r.Context(), r.Header.Get("traceparent"), t.pattern, trace.Server)
	defer span.End()
	_, path, _ := strings.Cut(t.pattern, " ")
	span.Text(trace.Method, r.Method)
	span.Text("http.route", path)
	span.Text(trace.Invocation, w.Header().Get("X-Request-Id"))
	returned := false
	defer func() {
		status := customhandler.Answered(w)
		switch {
		case !returned:
			span.Fail("the function panicked")
		case status >= http.StatusInternalServerError:
			span.Fail(http.StatusText(status))
		}
		if status != 0 {
			span.Number(trace.Status, int64(status))
		}
	}()
	t.route.ServeHTTP(w, r.WithContext(ctx))
	returned = true
}

// tracedQueue returns the function of a queue with a span for each message that
// belongs to a trace.
func tracedQueue(name string, next func(context.Context, customhandler.QueueMessage) (ending, error)) func(context.Context, customhandler.QueueMessage) (ending, error) {
	return func(ctx context.Context, m customhandler.QueueMessage) (ending, error) {
		if !trace.IsOn(ctx) {
			return next(ctx, m)
		}
		ctx, span := trace.Start(trace.Within(ctx, traceParentOf(m.Text)), "process "+name, trace.Consumer)
		defer span.End()
		span.Text(trace.System, trace.Queues)
		span.Text(trace.Operation, "process")
		span.Text(trace.Queue, name)
		span.Text(trace.Message, m.ID)
		span.Number(trace.Attempt, m.DequeueCount)
		span.Text(trace.Outcome, "done") // unless next reports another one
		result, err := next(ctx, m)
		switch {
		case err != nil:
			span.Text(trace.Outcome, "retried")
			span.Fail(err.Error())
		case result == putBack:
			span.Text(trace.Outcome, "returned")
		}
		return result, err
	}
}

// traceParentOf returns the trace of the message with a text. The messages of
// all queues have it in the same member.
func traceParentOf(text string) string {
	var m struct {
		TraceParent string `json:"traceparent"`
	}
	_ = json.Unmarshal([]byte(text), &m) // the receiver of the message returns the error
	return m.TraceParent
}
