package channels

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// A sweep reads whole pages, of which few rows need anything. keepAbandoned is
// how long after it was given up a request of a creation can still arrive:
// storage takes none that was signed much earlier.
const (
	sweepPage     = MaxPage
	keepAbandoned = 24 * time.Hour
)

// Swept says what a [Channels.Sweep] did.
type Swept struct {
	Restarted int `json:"restarted"` // deletions that stood still: a message was put for each
	Fences    int `json:"fences"`    // creations that never came to their end: their fences were removed
	Records   int `json:"records"`   // records of deletions, and of such creations, removed because of their age

	// Next is where the next sweep should begin, because time was up here; ""
	// if everything was seen.
	Next string `json:"next,omitempty"`
}

// Sweep finds what fell between two requests and never was taken up again:
// deletions whose message was lost or died in the dead-letter queue, and
// creations that never came to their end. It also removes old records. It is
// meant to be called every few minutes, with the Next of the call before.
//
// Deletions come first in each call, because they are what somebody waits for,
// and no more of them are begun when half of its time is over. All it reads is
// Channels, twice: a request for each thousand rows that it looks for, at least.
//
// What it cannot do it reports and goes on; it stops early enough to answer
// before its ctx ends. Several may sweep at once.
func (c *Channels) Sweep(ctx context.Context, from string) (Swept, error) {
	now := time.Now().UTC()
	end := c.until(ctx)
	half := now.Add(end.Sub(now) / 2)
	at, err := url.ParseQuery(from)
	if err != nil { // nonsense begins at the beginning: sweeping twice is harmless
		at = nil
	}
	var swept Swept
	var errs []error
	next := url.Values{}
	for _, chore := range []chore{
		{"deletions", Query{Column: stateColumn, Value: string(deleting)}, c.stalled, c.restart, half},
		{"rest", Query{Column: sweepColumn, Value: sweepYes}, c.overdue, c.clear, end},
	} {
		place, all, err := c.do(ctx, chore, placeOf(at[chore.name]), now, &swept)
		if !all {
			next[chore.name] = place.values()
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	swept.Next = next.Encode()
	return swept, errors.Join(errs...)
}

// chore is one of the things that a sweep looks for.
type chore struct {
	name  string
	q     Query
	due   func(record, time.Time) bool
	do    func(context.Context, record, time.Time, *Swept) error
	until time.Time
}

// place is where a chore goes on: on which page, and after which of its rows.
// Without the row, a few that cannot be dealt with, and take the whole time,
// would be all that is ever tried.
type place struct{ page, partition, key string }

func placeOf(values []string) place {
	if len(values) != 3 {
		return place{}
	}
	return place{values[0], values[1], values[2]}
}

func (p place) values() []string { return []string{p.page, p.partition, p.key} }

// on returns the rows of the page that come after that place: all of them if
// that row is no longer there. Which of two rows comes first only the store
// knows.
func (p place) on(rows []Row) []Row {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Partition == p.partition && r.Key == p.key })
	return rows[i+1:]
}

// do does a chore, and says whether that is all, or else where to go on.
func (c *Channels) do(ctx context.Context, chore chore, from place, now time.Time, swept *Swept) (next place, all bool, err error) {
	late := func() bool { return ctx.Err() != nil || !time.Now().Before(chore.until) }
	var errs []error
	q := chore.q
	q.Top = sweepPage
	for {
		q.After = from.page
		page, err := c.channels.Query(ctx, q)
		switch {
		case errors.Is(err, ErrToken):
			return place{}, false, fmt.Errorf("sweep channels: %w", errors.Join(append(errs, err)...))
		case err != nil:
			return from, false, fmt.Errorf("sweep channels: %w", errors.Join(append(errs, err)...))
		}
		for _, row := range from.on(page.Rows) {
			rec, err := readRecord(row)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if !chore.due(rec, now) {
				continue
			}
			if err := chore.do(ctx, rec, now, swept); err != nil {
				errs = append(errs, err)
			}
			if late() {
				return place{from.page, row.Partition, row.Key}, false, errors.Join(errs...)
			}
		}
		from = place{page: page.Next}
		if page.Next == "" || late() {
			return from, page.Next == "", errors.Join(errs...)
		}
	}
}

// stalled says that a deletion has not come on for long.
func (c *Channels) stalled(rec record, now time.Time) bool {
	return rec.state == deleting && now.Sub(rec.touchedAt) >= c.opt.StalledAfter
}

// restart puts a message for a deletion. If the old one is still about, two
// will work on it: that is harmless.
func (c *Channels) restart(ctx context.Context, rec record, now time.Time, swept *Swept) error {
	if _, err := c.put(ctx, rec, 0); err != nil {
		return fmt.Errorf("restart the deletion of channel %q: %w", rec.channel, err)
	}
	swept.Restarted++
	c.opt.Step(StepRestarted)

	// The next sweep shall wait as long as this one did. If somebody works on
	// the row after all, the better.
	rec.touchedAt = now
	_, err := c.channels.Submit(ctx, Write{Verb: Replace, Row: rec.row(), If: rec.version})
	if err != nil && !moved(err) {
		return fmt.Errorf("note the restart of the deletion of channel %q: %w", rec.channel, err)
	}
	return nil
}

// overdue says that something is to be cleared away.
func (c *Channels) overdue(rec record, now time.Time) bool {
	switch rec.state {
	case creating:
		return now.Sub(rec.createdAt) >= c.opt.OrphanAfter
	case abandoned:
		return now.Sub(rec.finishedAt) >= keepAbandoned // none: its fence was not removed yet
	case done:
		return now.Sub(rec.finishedAt) >= c.opt.KeepRecords
	}
	return false
}

func (c *Channels) clear(ctx context.Context, rec record, now time.Time, swept *Swept) (err error) {
	switch {
	case rec.state == creating:
		var out record // not rec, of which the error speaks
		if out, err = c.ruleOut(ctx, rec); err == nil {
			err = c.clearFence(ctx, out, now, swept)
		}
	case rec.state == abandoned && rec.finishedAt.IsZero():
		err = c.clearFence(ctx, rec, now, swept)
	default:
		err = c.forget(ctx, rec, swept)
	}
	if err != nil && !moved(err) {
		return fmt.Errorf("clear channel %q, incarnation %s: %w", rec.channel, rec.incarnation, err)
	}
	return nil
}

// clearFence removes the fence of a creation that was ruled out. The request
// for it may still be on its way, so that the row stays for a while.
func (c *Channels) clearFence(ctx context.Context, rec record, now time.Time, swept *Swept) error {
	if err := c.dropFence(ctx, rec); err != nil {
		return err
	}
	swept.Fences++
	rec.finishedAt = now
	_, err := c.channels.Submit(ctx, Write{Verb: Replace, Row: rec.row(), If: rec.version})
	return err
}

// forget removes a record when nobody can ask for it any more, or when nothing
// can come of what it stands for.
func (c *Channels) forget(ctx context.Context, rec record, swept *Swept) error {
	if rec.state == abandoned {
		if err := c.dropFence(ctx, rec); err != nil {
			return err
		}
	}
	_, err := c.channels.Submit(ctx, Write{Verb: Delete, Row: rec.row(), If: rec.version})
	if err == nil || errors.Is(err, ErrNotFound) {
		swept.Records++
	}
	return err
}

// moved says that somebody else has changed the row, or removed it.
func moved(err error) bool { return errors.Is(err, ErrChanged) || errors.Is(err, ErrNotFound) }
