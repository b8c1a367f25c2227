package localhost

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// longestLine is where an endless line is cut, so that a handler cannot fill the host's memory.
const longestLine = 1 << 20

// lineWriter is the receiving end of a child's stdout or stderr. It passes on whole lines, and at the end
// what is left without a line break. Only one goroutine writes to it.
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
	for len(w.held) > longestLine {
		rest := w.held[longestLine:]
		w.emit(string(w.held[:longestLine]))
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

// lastLines keeps the newest three lines of stderr, which the host shows when the handler crashes.
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

// A console is where people watch the host: the handler's lines as they are, and the host's own with the time
// in front. Each line is one Write.
type console struct {
	mu  sync.Mutex
	out io.Writer // guarded by mu
}

// Write makes a console a place for log records.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p)
}

func (c *console) line(text string) {
	// A console that cannot be written to is no reason to stop the host.
	_, _ = io.WriteString(c, text+"\n")
}

func (c *console) say(format string, args ...any) {
	c.line(time.Now().UTC().Format("[2006-01-02T15:04:05.000Z] ") + fmt.Sprintf(format, args...))
}
