package customhandler

import (
	"context"
	"log/slog"
)

// NewLogHandler returns a handler that adds the invocation's id and function to
// each record whose context belongs to an invocation, and passes all records on
// to next. The host does not connect lines on stdout to invocations, so these
// attributes are the only link. Wrapping a handler again has no effect.
func NewLogHandler(next slog.Handler) slog.Handler {
	if h, ok := next.(*logHandler); ok {
		return h
	}
	return &logHandler{root: next, next: next}
}

// logHandler keeps the handler without groups, and the steps from it to the one
// with groups, because the attributes belong beside the groups and not in them.
type logHandler struct {
	root, next slog.Handler
	replay     []func(slog.Handler) slog.Handler // from root to next; empty while no group is open
}

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *logHandler) Handle(ctx context.Context, record slog.Record) error {
	inv := invocationFrom(ctx)
	if inv == nil {
		return h.next.Handle(ctx, record)
	}
	attrs := []slog.Attr{slog.String("invocation", inv.id), slog.String("function", inv.function)}
	if len(h.replay) == 0 {
		record = record.Clone() // other handlers may share the record's attributes
		record.AddAttrs(attrs...)
		return h.next.Handle(ctx, record)
	}
	next := h.root.WithAttrs(attrs)
	for _, step := range h.replay {
		next = step(next)
	}
	return next.Handle(ctx, record)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(h.replay) == 0 {
		next := h.next.WithAttrs(attrs)
		return &logHandler{root: next, next: next}
	}
	return h.with(func(n slog.Handler) slog.Handler { return n.WithAttrs(attrs) })
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(func(n slog.Handler) slog.Handler { return n.WithGroup(name) })
}

func (h *logHandler) with(step func(slog.Handler) slog.Handler) slog.Handler {
	replay := append(h.replay[:len(h.replay):len(h.replay)], step)
	return &logHandler{root: h.root, next: step(h.next), replay: replay}
}
