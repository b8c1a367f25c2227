package attempt

import (
	"context"
	"log/slog"
)

// logHandler adds the attempt of the context to records.
type logHandler struct {
	next   slog.Handler
	groups []func(slog.Handler) slog.Handler // WithAttrs and WithGroup since, so that the attempt stays at the top
}

// LogHandler returns a handler that adds the attempt of the context to every
// record, at the top, as the group "attempt".
func LogHandler(next slog.Handler) slog.Handler { return logHandler{next: next} }

// Enabled implements [slog.Handler].
func (h logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	next := h.next
	if a, ok := Current(ctx); ok {
		next = next.WithAttrs([]slog.Attr{slog.Any("attempt", a)})
	}
	for _, derive := range h.groups {
		next = derive(next)
	}
	return next.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(next slog.Handler) slog.Handler { return next.WithAttrs(attrs) })
}

// WithGroup implements [slog.Handler].
func (h logHandler) WithGroup(name string) slog.Handler {
	return h.with(func(next slog.Handler) slog.Handler { return next.WithGroup(name) })
}

func (h logHandler) with(derive func(slog.Handler) slog.Handler) slog.Handler {
	h.groups = append(h.groups[:len(h.groups):len(h.groups)], derive)
	return h
}
