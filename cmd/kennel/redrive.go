package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kennel/client"
)

// A letterMove is a redrive or a deletion of dead letters.
type letterMove struct {
	verb, done string // as in "delete" and "deleted"
	asks       bool   // for confirmation
	repeat     func(*client.Client, context.Context, string, client.DeadLetterSelection) iter.Seq2[client.MovedDeadLetters, error]
	count      func(client.MovedDeadLetters) int
}

var (
	redriving = letterMove{"redrive", "put back", false, (*client.Client).RepeatRedrive, func(m client.MovedDeadLetters) int { return m.Moved }}
	deleting  = letterMove{"delete", "deleted", true, (*client.Client).RepeatDelete, func(m client.MovedDeadLetters) int { return m.Deleted }}
)

// someLetters requires a queue, and either ids or --all.
func someLetters(cmd *cobra.Command, args []string) error {
	all, err := cmd.Flags().GetBool("all")
	switch {
	case err != nil:
		return err // cannot occur: the command has the flag
	case len(args) == 0 || args[0] == "":
		return usagef("no queue given; for example %s work-0 --all", cmd.CommandPath())
	case all && len(args) > 1:
		return usagef("use either ids or --all, not both")
	case !all && len(args) == 1:
		return usagef("no id given; use one that `kennel deadletters list %s` prints, or --all", printable(args[0]))
	}
	return nil
}

// The rates that the app accepts, in dead letters a second.
const (
	minRate = 0.1
	maxRate = 10_000
)

// moveRun returns the function of a command that takes dead letters out of their
// queue.
func (con *console) moveRun(o *letterOptions, move letterMove) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ids := slices.Compact(slices.Sorted(slices.Values(args[1:])))
		s := client.DeadLetterSelection{All: o.all, IDs: ids, RatePerSecond: o.rate, Limit: o.limit, DryRun: o.dryRun}
		flags := cmd.Flags()
		switch {
		case flags.Changed("rate") && !(o.rate >= minRate && o.rate <= maxRate):
			return usagef("--rate is %v; use a number from %v to %d", o.rate, minRate, maxRate)
		case flags.Changed("limit") && o.limit < 1:
			return usagef("--limit is %d; use at least 1", o.limit)
		case flags.Changed("before"):
			var err error
			if s.Before, err = time.Parse(time.RFC3339, o.before); err != nil {
				return usagef("--before is %q; use the time that an interrupted command printed, such as 2026-01-02T03:04:05Z", printable(o.before))
			}
		}
		app, err := con.openApp(o.target)
		if err != nil {
			return err
		}
		queue, err := app.poisonQueue(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		app.lookup = fmt.Sprintf("kennel deadletters list %s", printable(queue))
		if s.DryRun {
			return con.rehearse(cmd.Context(), app, move, queue, s, o.asJSON)
		}
		if move.asks && !o.yes {
			if err := con.confirmMove(cmd.Context(), app, move, queue, s); err != nil {
				return err
			}
		}
		return con.moveLetters(cmd.Context(), app, move, queue, s, o.asJSON)
	}
}

// rehearse prints the effect that a command would have.
func (con *console) rehearse(ctx context.Context, app *app, move letterMove, queue string, s client.DeadLetterSelection, asJSON bool) error {
	for m, err := range move.repeat(app.Client, ctx, queue, s) {
		if err != nil {
			return app.failed(err)
		}
		if err := con.print(m.JSON(), fmt.Sprintf("%s of %s would be %s", foundLetters(m), queue, move.done), asJSON); err != nil {
			return err
		}
	}
	return nil
}

// foundLetters returns how many dead letters a dry run has found.
func foundLetters(m client.MovedDeadLetters) string {
	if m.More {
		return "at least " + letterCount(m.Matched)
	}
	return letterCount(m.Matched)
}

// confirmMove asks whether to continue.
func (con *console) confirmMove(ctx context.Context, app *app, move letterMove, queue string, s client.DeadLetterSelection) error {
	if !isTerminal(con.stdin) {
		return usagef("standard input is not a terminal; use --yes to %s dead letters of %s without confirmation", move.verb, printable(queue))
	}
	which, now := letterCount(len(s.IDs)), ""
	switch {
	case s.All && s.Limit > 0:
		which = "up to " + letterCount(s.Limit)
	case s.All:
		which = "all dead letters"
		s.DryRun = true
		for m, err := range move.repeat(app.Client, ctx, queue, s) {
			if err != nil {
				return app.failed(err)
			}
			now = ", now " + foundLetters(m)
		}
	}
	question := fmt.Sprintf("%s %s of %s at %s%s? This cannot be undone.", strings.ToUpper(move.verb[:1])+move.verb[1:], which, queue, app.Address(), now)
	return con.confirm(ctx, printable(question), "not "+move.done)
}

// moving is the progress of a command.
type moving struct {
	move  letterMove
	queue string
	total int // dead letters at the beginning; 0: unknown
	began time.Time

	moved  int
	before time.Time
	left   []client.LeftDeadLetter
	cut    bool // there are others left
	more   bool
}

// moveLetters moves dead letters and shows the progress. When ctx ends, it
// completes the call to the app, so that its result is known.
func (con *console) moveLetters(ctx context.Context, app *app, move letterMove, queue string, s client.DeadLetterSelection, asJSON bool) error {
	out := con.progress()
	defer out.end()
	app.say = out.say
	w := &moving{move: move, queue: queue, total: len(s.IDs), began: time.Now(), before: s.Before}
	if s.All && out.terminal {
		w.total = con.countLetters(ctx, app, queue, s.Limit)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	lineBreak := ""
	if out.terminal {
		lineBreak = "\n" // keeps the line of the progress
	}
	defer context.AfterFunc(ctx, func() {
		con.say("%sthe current call to the app is completed first; a second Ctrl+C ends kennel immediately", lineBreak)
	})()
	for m, err := range move.repeat(app.Client, context.WithoutCancel(ctx), queue, s) {
		if err != nil {
			return w.interrupted(con, s, app.failed(err))
		}
		w.add(m)
		if asJSON {
			if err := con.writeLine(string(m.JSON())); err != nil {
				return err
			}
		}
		if ctx.Err() != nil && m.More {
			return w.interrupted(con, s, ctx.Err())
		}
		if out.terminal || m.More {
			out.report(w.describe(time.Since(w.began)))
		}
	}
	out.end()
	if !asJSON {
		if err := con.writeLine(printable(fmt.Sprintf("%s of %s %s", letterCount(w.moved), queue, move.done))); err != nil {
			return err
		}
	}
	return w.incomplete(con, s, func() int { return con.countLetters(ctx, app, queue, 0) })
}

// countLetters returns how many dead letters of a queue there are to move, 0 if
// that is not known.
func (con *console) countLetters(ctx context.Context, app *app, queue string, limit int) int {
	queues, err := app.DeadLetterQueues(ctx)
	if err != nil {
		return 0 // only the progress lacks it
	}
	for _, q := range queues {
		if q.Queue == queue && limit > 0 {
			return min(int(q.Messages), limit)
		} else if q.Queue == queue {
			return int(q.Messages)
		}
	}
	return 0
}

// add takes the result of a call.
func (w *moving) add(m client.MovedDeadLetters) {
	w.moved += w.move.count(m)
	w.more = m.More
	if !m.Before.IsZero() {
		w.before = m.Before
	}
	w.left = m.Left // the last call meets those of earlier ones again
	w.cut = m.Matched-w.move.count(m) > len(m.Left)
}

// describe returns the progress after a time.
func (w *moving) describe(elapsed time.Duration) string {
	text := fmt.Sprintf("%s %s", letterCount(w.moved), w.move.done)
	if w.total >= w.moved && w.total > 0 {
		text = fmt.Sprintf("%d of %s %s", w.moved, letterCount(w.total), w.move.done)
	}
	if elapsed < rateAfter || w.moved == 0 {
		return text
	}
	rate := float64(w.moved) / elapsed.Seconds()
	text += fmt.Sprintf(", %.3g/s", math.Round(rate*10)/10)
	if w.total > w.moved {
		left := time.Duration(float64(w.total-w.moved) / rate * float64(time.Second))
		text += fmt.Sprintf(", %v left", max(left.Round(time.Second), time.Second))
	}
	return text
}

// interrupted adds the progress before an error to it, and how to continue.
func (w *moving) interrupted(con *console, s client.DeadLetterSelection, err error) error {
	if w.moved == 0 {
		return err
	}
	again := fmt.Sprintf("%s deadletters %s %s", con.program, w.move.verb, printable(w.queue))
	if s.All {
		again += " --all"
	} else {
		again += " …"
	}
	if s.RatePerSecond > 0 {
		again += " --rate " + strconv.FormatFloat(s.RatePerSecond, 'g', -1, 64)
	}
	if s.Limit > 0 {
		again += fmt.Sprintf(" --limit %d", max(s.Limit-w.moved, 1))
	}
	if !w.before.IsZero() {
		again += " --before " + w.before.UTC().Format(time.RFC3339Nano)
	}
	return explained{fmt.Sprintf("%s; %s %s; to continue: %s", clause(err.Error()), letterCount(w.moved), w.move.done, again), err}
}

// incomplete returns an error if not all that was selected was moved. count
// returns how many dead letters are there now, about, and 0 if that is not known.
func (w *moving) incomplete(con *console, s client.DeadLetterSelection, count func() int) error {
	missing := len(s.IDs) - w.moved - len(w.left)
	wantedMore := s.All && (s.Limit == 0 || w.moved < s.Limit)
	switch {
	case len(w.left) > 0:
		text := fmt.Sprintf("%s not %s:", letterCount(len(w.left)), w.move.done)
		if w.cut {
			text = "some dead letters not " + w.move.done + "; the first are:"
		}
		for _, l := range w.left {
			text += fmt.Sprintf("\n  %s: %s", l.ID, oneLine(l.Reason))
		}
		if wantedMore && w.more {
			text += "\nthere may be others, which were not reached; delete those that are not needed, then repeat the command"
		}
		return errors.New(text)
	case missing > 0:
		return fmt.Errorf("%s not found in %s; they may have been redriven or deleted", letterCount(missing), w.queue)
	case !wantedMore:
		return nil
	}
	// A killed call hides the letters that it had received: no call finds them.
	switch present := count(); {
	case present > 0:
		con.say("%s has about %s now; they came meanwhile, failed again, or are held by another call for up to 75 s; see `kennel deadletters list %s`",
			printable(w.queue), letterCount(present), printable(w.queue))
	case w.more:
		con.say("there may be others, which another call holds; repeat the command in two minutes to be sure")
	case w.moved == 0:
		con.say("nothing changed: there are no dead letters in %s", printable(w.queue))
	}
	return nil
}
