package customhandler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lines is a log of texts without times.
type lines struct {
	mu      sync.Mutex
	text    strings.Builder // guarded by mu
	log     *slog.Logger
	repeats *Repeats
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns what was written since the last call.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

func newLines() *lines {
	l := &lines{}
	l.repeats = NewRepeats(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	l.log = slog.New(NewLogHandler(l.repeats))
	return l
}

// expect compares what was written since the last call.
func (l *lines) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	got := strings.TrimSpace(l.take())
	if got != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant:\n%s", when, got, strings.Join(want, "\n"))
	}
}

func ofCall(id string) context.Context {
	return withInvocation(context.Background(), &invocation{id: id, function: "Next"})
}

func TestRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines()
		down := func(n int) error {
			return fmt.Errorf("dial 127.0.0.1:%d->127.0.0.1:10000 at 2026-01-02T03:04:%02dZ, id 0d9f6b1e-58a4-4c1f-9c5e-2f1f4f6f%04d: refused", 40000+n, n%60, n)
		}
		first := `level=ERROR msg=failed error="` + down(0).Error() + `" invocation=i0 function=Next`
		for n := range 100 {
			l.log.ErrorContext(ofCall(fmt.Sprint("i", n)), "failed", "error", down(n))
		}
		l.expect(t, "100 failures", first)
		synctest.Wait()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		l.expect(t, "before the end of the minute")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		l.expect(t, "after the minute", first+" count=99")
		l.log.ErrorContext(ofCall("i0"), "failed", "error", down(0))
		l.expect(t, "the next minute", first)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		l.expect(t, "a failure without others")
		if n := len(l.repeats.state.causes); n != 0 {
			t.Errorf("%d causes are kept, want 0", n)
		}
	})
}

// TestRepeatsDistinguishes: what is not the same failure is passed on.
func TestRepeatsDistinguishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines()
		err := errors.New("it went down from 2001 to 1001")
		for range 2 { // the second round is counted, except for what is no failure
			l.log.Warn("a", "error", err)
			l.log.Error("a", "error", err)
			l.log.Warn("b", "error", err)
			l.log.Warn("a", "error", errors.New("it went down from 3001 to 1001"))
			l.log.Warn("a", "error", err, "gate", "x")
			l.log.With("gate", "y").Warn("a", "error", err)
			l.log.WithGroup("g").Warn("a", "gate", "x", "error", err)
			l.log.WarnContext(ofCall("i1"), "a", "error", err)
		}
		text := l.take()
		if n := strings.Count(text, "\n"); n != 8 {
			t.Errorf("%d lines, want 8:\n%s", n, text)
		}
		for range 2 {
			l.log.Info("a", "error", err)
			l.log.Warn("a", "gate", "x")
		}
		text = l.take()
		if n := strings.Count(text, "\n"); n != 4 {
			t.Errorf("%d lines that are no failures, want 4:\n%s", n, text)
		}
		l.repeats.Flush()
		text = l.take()
		if n := strings.Count(text, "count=1\n"); n != 8 {
			t.Errorf("%d counts at the end, want 8:\n%s", n, text)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		l.expect(t, "after the end")
	})
}

// TestRepeatsBounded: causes beyond the limit are passed on and not kept.
func TestRepeatsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines()
		for n := range maxCauses + 10 {
			for range 2 {
				l.log.Error("failed", "error", fmt.Errorf("cause %d", n))
			}
		}
		if n, want := strings.Count(l.take(), "\n"), maxCauses+2*10; n != want {
			t.Errorf("%d lines, want %d", n, want)
		}
		if n := len(l.repeats.state.causes); n != maxCauses {
			t.Errorf("%d causes are kept, want %d", n, maxCauses)
		}
		l.repeats.Flush()
	})
}

func TestRepeatsDropsTheStack(t *testing.T) {
	l := newLines()
	for n := range 2 {
		l.log.Error("failed", "error", "panic: x", "stack", fmt.Sprint("goroutine ", n))
	}
	l.repeats.Flush()
	l.expect(t, "a panic", `level=ERROR msg=failed error="panic: x" stack="goroutine 0"`, `level=ERROR msg=failed error="panic: x" count=1`)
}

func TestSplitBySeverity(t *testing.T) {
	var stdout, stderr bytes.Buffer
	log := slog.New(SplitBySeverity(slog.NewTextHandler(&stdout, nil), slog.NewTextHandler(&stderr, nil))).With("a", 1).WithGroup("g")
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		log.Log(t.Context(), level, "m", "b", 2)
	}
	for stream, want := range map[*bytes.Buffer][]string{&stdout: {"INFO"}, &stderr: {"WARN", "ERROR"}} {
		for _, level := range want {
			if !strings.Contains(stream.String(), "level="+level+" msg=m a=1 g.b=2") {
				t.Errorf("%s is missing in:\n%s", level, stream)
			}
		}
		if n := strings.Count(stream.String(), "\n"); n != len(want) {
			t.Errorf("%d lines, want %d:\n%s", n, len(want), stream)
		}
	}
}
