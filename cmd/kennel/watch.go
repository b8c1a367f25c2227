package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"kennel/channels"
)

const (
	watchInterval = time.Second
	lineInterval  = 5 * time.Second // between lines, without a terminal
	stalledAfter  = 5 * time.Second // without a deleted blog there is no estimate
)

// watching is what is known about a deletion when the watch starts.
type watching struct {
	total int64     // blogs before the deletion, or unknown
	began time.Time // start of the deletion; zero: it started before the watch
	from  int64     // blogs deleted before began
}

// watch polls a deletion until it is done and reports its progress. It
// continues through outages of the app and its storage.
func (c channelsRemote) watch(ctx context.Context, con *console, d deletionAnswer, w watching) (deletionAnswer, error) {
	if w.began.IsZero() {
		w.began, w.from = time.Now(), d.Deleted
	}
	out := con.progress()
	defer out.end()
	c.say = out.say
	lastErr, progressed := "", time.Now()
	for d.State == channels.Running {
		out.show(w.describe(d.Deletion, time.Since(w.began), time.Since(progressed)))
		if err := pause(ctx, watchInterval); err != nil {
			return d, err
		}
		newer, err := c.deletion(ctx, d.Incarnation)
		switch {
		case ctx.Err() != nil:
			return d, ctx.Err()
		case err != nil && isFinal(err):
			return d, err
		case err != nil && lastErr != err.Error():
			lastErr = err.Error()
			out.say("%s; still waiting", printable(lastErr))
		case err == nil:
			if newer.Deleted > d.Deleted {
				progressed = time.Now()
			}
			lastErr, d = "", newer
		}
	}
	return d, nil
}

// isFinal reports whether a retry would fail again.
func isFinal(err error) bool {
	refused, ok := errors.AsType[*refusal](err)
	return ok && refused.status < 500 && refused.status != http.StatusTooManyRequests && refused.status != http.StatusRequestTimeout
}

// describe returns the progress of a deletion. elapsed is the time since it
// started, idle the time since it last made progress.
func (w watching) describe(d channels.Deletion, elapsed, idle time.Duration) string {
	text := fmt.Sprintf("%s: %s deleted", d.Channel, blogCount(d.Deleted))
	if w.total >= d.Deleted {
		text = fmt.Sprintf("%s: %d of %s deleted", d.Channel, d.Deleted, blogCount(w.total))
	}
	if idle >= stalledAfter {
		return oneLine(text + ", stalled")
	}
	if elapsed < watchInterval || d.Deleted <= w.from {
		return oneLine(text) // too early for a rate
	}
	rate := float64(d.Deleted-w.from) / elapsed.Seconds()
	text += fmt.Sprintf(", %.0f/s", rate)
	if w.total >= d.Deleted {
		left := time.Duration(float64(w.total-d.Deleted) / rate * float64(time.Second))
		text += fmt.Sprintf(", %v left", max(left.Round(time.Second), time.Second))
	}
	return oneLine(text)
}

// A progress is one changing line on a terminal, and a line every lineInterval
// elsewhere.
type progress struct {
	con      *console
	terminal bool
	width    int       // of the text on the terminal's line
	last     string    // the text that was shown last
	at       time.Time // when it was shown
}

func (con *console) progress() *progress {
	return &progress{con: con, terminal: con.env["TERM"] != "dumb" && isTerminal(con.stderr)}
}

func (p *progress) show(text string) {
	text = printable(text)
	switch {
	case p.terminal:
		fmt.Fprintf(p.con.stderr, "\r%-*s", p.width, text)
		p.width = len([]rune(text))
	case text != p.last && (p.at.IsZero() || time.Since(p.at) >= lineInterval):
		p.con.say("%s", text)
		p.last, p.at = text, time.Now()
	}
}

// say writes a line that stays.
func (p *progress) say(format string, args ...any) {
	p.end()
	p.con.say(format, args...)
}

// end clears the terminal's line.
func (p *progress) end() {
	if p.width > 0 {
		fmt.Fprintf(p.con.stderr, "\r%s\r", strings.Repeat(" ", p.width))
		p.width = 0
	}
}
