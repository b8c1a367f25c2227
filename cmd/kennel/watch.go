package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kennel/client"
)

const (
	rateAfter    = time.Second     // before that there is no rate
	stalledAfter = 5 * time.Second // without a deleted blog there is no estimate

	unknown = int64(-1)
)

// watching has the facts about a deletion when the watch starts.
type watching struct {
	total int64     // blogs before the deletion, or unknown
	began time.Time // start of the deletion; zero: it started before the watch
	from  int64     // blogs deleted before began
}

// watch waits until a deletion is done and shows its progress. It continues
// through outages of the app and its storage.
func (con *console) watch(ctx context.Context, app *app, d client.Deletion, w watching) (client.Deletion, error) {
	if w.began.IsZero() {
		w.began, w.from = time.Now(), d.Deleted
	}
	out := con.progress()
	defer out.end()
	app.say = out.say
	progressed := time.Now()
	for newer, err := range app.WatchDeletion(ctx, d) {
		if err != nil {
			return d, err
		}
		if newer.Deleted > d.Deleted {
			progressed = time.Now()
		}
		if d = newer; d.State == client.Running {
			out.show(w.describe(d, time.Since(w.began), time.Since(progressed)))
		}
	}
	return d, nil
}

// describe returns the progress of a deletion. elapsed is the time since it
// started, idle the time since it last made progress.
func (w watching) describe(d client.Deletion, elapsed, idle time.Duration) string {
	text := fmt.Sprintf("%s: %s deleted", d.Channel, blogCount(d.Deleted))
	if w.total >= d.Deleted {
		text = fmt.Sprintf("%s: %d of %s deleted", d.Channel, d.Deleted, blogCount(w.total))
	}
	if idle >= stalledAfter {
		return oneLine(text + ", stalled")
	}
	if elapsed < rateAfter || d.Deleted <= w.from {
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

// A progress is one changing line on a terminal, and nothing elsewhere.
type progress struct {
	con      *console
	terminal bool
	width    int       // of the text on the terminal's line
	reported time.Time // the last line of report elsewhere, or the begin
}

func (con *console) progress() *progress {
	return &progress{con: con, terminal: con.showsProgress(), reported: time.Now()}
}

// report shows the progress of long work: on a terminal at once, elsewhere in a
// line from time to time.
func (p *progress) report(text string) {
	if p.terminal {
		p.show(text)
	} else if time.Since(p.reported) >= lineEvery {
		p.reported = time.Now()
		p.say("%s", printable(text))
	}
}

// rateOf returns how fast n things were done, to follow on their number; "" if it
// is too early for that.
func rateOf(n int, elapsed time.Duration) string {
	if elapsed < rateAfter || n <= 0 {
		return ""
	}
	return fmt.Sprintf(", %.0f/s", float64(n)/elapsed.Seconds())
}

func (p *progress) show(text string) {
	if p.terminal {
		text = printable(text)
		if width := columns(p.con.stderr); width > 0 {
			text = cut(text, width-1) // a line that wraps cannot be replaced
		}
		fmt.Fprintf(p.con.stderr, "\r%-*s", p.width, text)
		p.width = len([]rune(text))
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
