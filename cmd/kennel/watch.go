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
	watchEvery = time.Second
	linesEvery = 5 * time.Second // where lines stay
	stillAfter = 5 * time.Second // without another blog deleted nobody can say how long it will take
)

// watching is what is known of a deletion before it is watched.
type watching struct {
	total int64     // blogs that there were; unknown
	began time.Time // when the first of them can have been deleted; zero if that was before
	from  int64     // blogs that had been deleted then
}

// watch asks how far a deletion is until it is done, and tells. Outages of the
// app and its storage are waited for.
func (c channelsRemote) watch(ctx context.Context, con *console, d deletionAnswer, w watching) (deletionAnswer, error) {
	if w.began.IsZero() {
		w.began, w.from = time.Now(), d.Deleted
	}
	out := con.progress()
	defer out.end()
	c.say = out.say
	trouble, moved := "", time.Now()
	for d.State == channels.Running {
		out.show(w.describe(d.Deletion, time.Since(w.began), time.Since(moved)))
		if err := pause(ctx, watchEvery); err != nil {
			return d, err
		}
		newer, err := c.deletion(ctx, d.Incarnation)
		switch {
		case ctx.Err() != nil:
			return d, ctx.Err()
		case err != nil && isFinal(err):
			return d, err
		case err != nil && trouble != err.Error():
			trouble = err.Error()
			out.say("%s; waiting on", printable(trouble))
		case err == nil:
			if newer.Deleted > d.Deleted {
				moved = time.Now()
			}
			trouble, d = "", newer
		}
	}
	return d, nil
}

// isFinal says that asking again is of no use.
func isFinal(err error) bool {
	refused, ok := errors.AsType[*refusal](err)
	return ok && refused.status < 500 && refused.status != http.StatusTooManyRequests && refused.status != http.StatusRequestTimeout
}

// describe says how far a deletion is, so long after it began and after it was
// seen to come on.
func (w watching) describe(d channels.Deletion, elapsed, still time.Duration) string {
	text := fmt.Sprintf("%s: %s deleted", d.Channel, blogCount(d.Deleted))
	if w.total >= d.Deleted {
		text = fmt.Sprintf("%s: %d of %s deleted", d.Channel, d.Deleted, blogCount(w.total))
	}
	if still >= stillAfter {
		return oneLine(text + ", standing still for now")
	}
	if elapsed < watchEvery || d.Deleted <= w.from {
		return oneLine(text) // no rate worth the name
	}
	rate := float64(d.Deleted-w.from) / elapsed.Seconds()
	text += fmt.Sprintf(", %.0f/s", rate)
	if w.total >= d.Deleted {
		left := time.Duration(float64(w.total-d.Deleted) / rate * float64(time.Second))
		text += fmt.Sprintf(", %v left", max(left.Round(time.Second), time.Second))
	}
	return oneLine(text)
}

// A progress is a line that changes on a terminal, and lines now and then
// elsewhere.
type progress struct {
	con      *console
	terminal bool
	width    int       // of what is on the terminal's line
	last     string    // what was shown
	at       time.Time // and when
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
	case text != p.last && (p.at.IsZero() || time.Since(p.at) >= linesEvery):
		p.con.say("%s", text)
		p.last, p.at = text, time.Now()
	}
}

// say writes a line of another kind.
func (p *progress) say(format string, args ...any) {
	p.end()
	p.con.say(format, args...)
}

// end leaves the terminal's line empty.
func (p *progress) end() {
	if p.width > 0 {
		fmt.Fprintf(p.con.stderr, "\r%s\r", strings.Repeat(" ", p.width))
		p.width = 0
	}
}
