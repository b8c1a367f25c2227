package customhandler

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

func TestInvocationID(t *testing.T) {
	for _, tt := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{"host"}, "host"},
		{[]string{"client", "host"}, "host"},
		{[]string{"client,proxy,host"}, "host"},
		{[]string{"client", "client, host "}, "host"},
		{[]string{strings.Repeat("x", 1<<20)}, strings.Repeat("x", 128)},
	} {
		if got := invocationID(http.Header{headerInvocationID: tt.lines}); got != tt.want {
			t.Errorf("invocationID of %.80q = %q, want %q", tt.lines, got, tt.want)
		}
	}
}

func TestLogHandler(t *testing.T) {
	ctx := withInvocation(t.Context(), &invocation{id: "inv-1", function: "Work"})
	tests := []struct {
		name string
		log  func(*slog.Logger)
		want string
	}{
		{"outside of an invocation", func(l *slog.Logger) { l.Info("m", "a", 1) }, "a=1"},
		{"inside", func(l *slog.Logger) { l.InfoContext(ctx, "m", "a", 1) }, "a=1 invocation=inv-1 function=Work"},
		{"with attributes", func(l *slog.Logger) { l.With("a", 1).InfoContext(ctx, "m") }, "a=1 invocation=inv-1 function=Work"},
		{"beside groups, not in them", func(l *slog.Logger) {
			l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").InfoContext(ctx, "m", "c", 3)
		}, "a=1 invocation=inv-1 function=Work g.b=2 g.h.c=3"},
		{"group outside of an invocation", func(l *slog.Logger) { l.WithGroup("g").Info("m", "c", 3) }, "g.c=3"},
		{"empty group", func(l *slog.Logger) { l.WithGroup("").InfoContext(ctx, "m") }, "invocation=inv-1 function=Work"},
		{"level of the next handler", func(l *slog.Logger) { l.DebugContext(ctx, "m") }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			h := NewLogHandler(NewLogHandler(slog.NewTextHandler(&b, nil))) // the second call has no effect
			tt.log(slog.New(h))
			_, got, _ := strings.Cut(strings.TrimSpace(b.String()), "msg=m ")
			if got != tt.want {
				t.Errorf("log = %q, want %q", got, tt.want)
			}
		})
	}
}
