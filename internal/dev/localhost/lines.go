package localhost

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// maxLine is the length at which a line is split, so that a handler cannot fill
// the host's memory.
const maxLine = 1 << 20

// lineWriter receives a child's stdout or stderr. It emits complete lines and,
// when closed, a last line without a line break. Only one goroutine writes to
// it.
type lineWriter struct {
	emit func(line string)
	held []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			w.held = append(w.held, p...)
			break
		}
		w.held = append(w.held, p[:end]...)
		w.flush()
		p = p[end+1:]
	}
	for len(w.held) > maxLine {
		rest := w.held[maxLine:]
		w.emit(string(w.held[:maxLine]))
		w.held = slices.Clone(rest)
	}
	return n, nil
}

func (w *lineWriter) flush() {
	w.emit(string(bytes.TrimSuffix(w.held, []byte("\r"))))
	w.held = w.held[:0]
}

func (w *lineWriter) Close() error {
	if len(w.held) > 0 {
		w.flush()
	}
	return nil
}

// lastLines keeps the last three lines of stderr, which the host reports when
// the handler crashes.
type lastLines struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (l *lastLines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	if len(l.lines) > 3 {
		l.lines = l.lines[1:]
	}
}

func (l *lastLines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// A console shows the output of the handler unchanged, and the messages of the
// host with the time in front. Each line is one Write.
type console struct {
	mu  sync.Mutex
	out io.Writer // guarded by mu
}

// Write implements [io.Writer] for log records.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p)
}

func (c *console) line(text string) {
	// The host keeps running if the console cannot be written.
	_, _ = io.WriteString(c, text+"\n")
}

func (c *console) say(format string, args ...any) {
	c.line(time.Now().UTC().Format("[2006-01-02T15:04:05.000Z] ") + fmt.Sprintf(format, args...))
}
