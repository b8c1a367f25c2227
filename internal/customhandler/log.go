package customhandler

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"
)

// LoggerKey and Logger are the attribute of each record that Kennel writes. It
// tells them from those of the program's own code on the same stream.
const (
	LoggerKey = "logger"
	Logger    = "kennel"
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

const (
	repeatWindow = time.Minute
	maxCauses    = 200 // that are counted at a time; the records of others are all passed on
)

// Repeats is a log handler that passes a failure on once a minute and counts
// the rest, so that an outage is not logged once per request. A failure is a
// warning or an error with the attribute "error". Two failures are the same if
// they are equal except for the invocation's id, the stack, and the ids, times
// and ports in the text of the error.
//
// The first record is passed on at once. If others followed, it is passed on
// again at the end of the minute, with their number as the attribute "count".
type Repeats struct {
	next  slog.Handler
	scope string // the attributes and groups of next
	group string // the prefix of the open groups
	state *repeatState
}

type repeatState struct {
	mu     sync.Mutex
	causes map[string]*repeated // guarded by mu
}

// repeated is a failure that was passed on less than a minute ago.
type repeated struct {
	next  slog.Handler
	first slog.Record
	count int // of the same failures after the first; guarded by repeatState.mu
	timer *time.Timer
}

// NewRepeats returns a handler that passes records on to next. Call Flush
// before the process ends.
func NewRepeats(next slog.Handler) *Repeats {
	return &Repeats{next: next, state: &repeatState{causes: make(map[string]*repeated)}}
}

// Enabled implements [slog.Handler].
func (h *Repeats) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h *Repeats) Handle(ctx context.Context, r slog.Record) error {
	cause, ok := h.cause(r)
	if !ok {
		return h.next.Handle(ctx, r)
	}
	s := h.state
	s.mu.Lock()
	if known := s.causes[cause]; known != nil {
		known.count++
		s.mu.Unlock()
		return nil
	}
	if len(s.causes) < maxCauses {
		s.causes[cause] = &repeated{next: h.next, first: r.Clone(),
			timer: time.AfterFunc(repeatWindow, func() { s.end(cause) })}
	}
	s.mu.Unlock()
	return h.next.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *Repeats) WithAttrs(attrs []slog.Attr) slog.Handler {
	scope := h.scope
	for _, attr := range attrs {
		if attr.Key != "invocation" {
			scope += "\n" + h.group + attr.String()
		}
	}
	return &Repeats{next: h.next.WithAttrs(attrs), scope: scope, group: h.group, state: h.state}
}

// WithGroup implements [slog.Handler].
func (h *Repeats) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &Repeats{next: h.next.WithGroup(name), scope: h.scope, group: h.group + name + ".", state: h.state}
}

// Flush passes on the counts of all failures.
func (h *Repeats) Flush() {
	s := h.state
	s.mu.Lock()
	causes := s.causes
	s.causes = make(map[string]*repeated)
	s.mu.Unlock()
	for _, r := range causes {
		r.timer.Stop()
		r.report()
	}
}

// cause returns what identifies a failure, or false for other records.
func (h *Repeats) cause(r slog.Record) (string, bool) {
	if r.Level < slog.LevelWarn {
		return "", false
	}
	failure := false
	var text strings.Builder
	text.WriteString(r.Level.String() + " " + r.Message + h.scope)
	r.Attrs(func(attr slog.Attr) bool {
		switch attr.Key {
		case "invocation", "stack":
			return true
		case "error":
			failure = true
			text.WriteString("\nerror=" + variable().ReplaceAllString(attr.Value.String(), "*"))
		default:
			text.WriteString("\n" + h.group + attr.String())
		}
		return true
	})
	return text.String(), failure
}

// variable matches what differs between two errors of the same cause: ids,
// times, and the local port of a connection.
var variable = sync.OnceValue(func() *regexp.Regexp { // not at the start of the process
	return regexp.MustCompile(`[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}` +
		`|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*|:\d+->`)
})

// end forgets a failure whose minute is over.
func (s *repeatState) end(cause string) {
	s.mu.Lock()
	r := s.causes[cause]
	delete(s.causes, cause)
	s.mu.Unlock()
	if r != nil { // else Flush has reported it
		r.report()
	}
}

// report passes the count on. No count is added any more.
func (r *repeated) report() {
	if r.count == 0 {
		return
	}
	again := slog.NewRecord(time.Now(), r.first.Level, r.first.Message, r.first.PC)
	r.first.Attrs(func(attr slog.Attr) bool {
		if attr.Key != "stack" {
			again.AddAttrs(attr)
		}
		return true
	})
	again.AddAttrs(slog.Int("count", r.count))
	_ = r.next.Handle(context.Background(), again) // a log that cannot be written is not logged
}
