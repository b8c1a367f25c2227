package customhandler

import (
	"context"
	"log/slog"
)

// SplitBySeverity returns a handler that passes warnings and errors to stderr
// and other records to stdout. The host records the severity of a line by its
// stream alone: Information for standard output; for standard error Error, or
// Warning if the line contains "warn" in any case.
func SplitBySeverity(stdout, stderr slog.Handler) slog.Handler {
	return splitHandler{stdout, stderr}
}

type splitHandler struct{ stdout, stderr slog.Handler }

func (h splitHandler) of(level slog.Level) slog.Handler {
	if level >= slog.LevelWarn {
		return h.stderr
	}
	return h.stdout
}

func (h splitHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.of(level).Enabled(ctx, level)
}

func (h splitHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.of(r.Level).Handle(ctx, r)
}

func (h splitHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return splitHandler{h.stdout.WithAttrs(attrs), h.stderr.WithAttrs(attrs)}
}

func (h splitHandler) WithGroup(name string) slog.Handler {
	return splitHandler{h.stdout.WithGroup(name), h.stderr.WithGroup(name)}
}
