package channels

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"kennel/internal/table"
)

// A sweep reads whole pages, because few rows need work. keepAbandoned is how
// long requests of an abandoned creation may still arrive: storage rejects a
// request that was signed much earlier.
const (
	sweepPage     = table.MaxPage
	keepAbandoned = 24 * time.Hour
)

// Swept counts the results of a [Channels.Sweep].
type Swept struct {
	Restarted int `json:"restarted"` // stalled deletions: a message was put for each
	Fences    int `json:"fences"`    // unfinished creations: their fences were removed
	Records   int `json:"records"`   // records of deletions and of unfinished creations: removed because of their age

	// Next is where the next sweep continues because this one ran out of time;
	// "" if it read everything.
	Next string `json:"next,omitempty"`
}

// Sweep finds work that no process continues: deletions whose message was lost
// or ended in the dead-letter queue, and creations that were never finished. It
// also removes old records. Call it every few minutes, with the Next of the
// previous call.
//
// Each call handles deletions first, because callers wait for them, but starts
// none after half of its time. Sweep reads only Channels, with two queries.
// Each takes at least one request per thousand rows that it finds.
//
// Sweep continues after an error and returns all errors joined. It returns
// before ctx expires. Several processes may sweep at once.
func (c *Channels) Sweep(ctx context.Context, from string) (Swept, error) {
	now := time.Now().UTC()
	end := c.until(ctx)
	half := now.Add(end.Sub(now) / 2)
	at, err := url.ParseQuery(from)
	if err != nil { // start at the beginning: sweeping twice is harmless
		at = nil
	}
	var swept Swept
	var errs []error
	next := url.Values{}
	for _, task := range []task{
		{"deletions", table.Query{Column: stateColumn, Value: string(deleting)}, c.stalled, c.restart, half},
		{"rest", table.Query{Column: sweepColumn, Value: sweepYes}, c.overdue, c.clear, end},
	} {
		cursor, all, err := c.do(ctx, task, cursorOf(at[task.name]), now, &swept)
		if !all {
			next[task.name] = cursor.values()
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	swept.Next = next.Encode()
	return swept, errors.Join(errs...)
}

// task is one kind of row that a sweep handles.
type task struct {
	name  string
	q     table.Query
	due   func(record, time.Time) bool
	do    func(context.Context, record, time.Time, *Swept) error
	until time.Time
}

// cursor is where a task continues: the page, and the last row that it handled
// there. Without that row, each sweep would begin with the same rows. If these
// fail and take the whole time, no other row would ever be handled.
type cursor struct{ page, partition, key string }

func cursorOf(values []string) cursor {
	if len(values) != 3 {
		return cursor{}
	}
	return cursor{values[0], values[1], values[2]}
}

func (c cursor) values() []string { return []string{c.page, c.partition, c.key} }

// after returns the rows of the page that follow the cursor's row. If that row
// was removed it returns all of them, because only the store knows the order of
// two rows.
func (c cursor) after(rows []table.Row) []table.Row {
	i := slices.IndexFunc(rows, func(r table.Row) bool { return r.Partition == c.partition && r.Key == c.key })
	return rows[i+1:]
}

// do carries out a task. It returns whether the task is complete, and otherwise
// where to continue.
func (c *Channels) do(ctx context.Context, task task, from cursor, now time.Time, swept *Swept) (next cursor, all bool, err error) {
	late := func() bool { return ctx.Err() != nil || !time.Now().Before(task.until) }
	var errs []error
	q := task.q
	q.Top = sweepPage
	for {
		q.After = from.page
		page, err := c.channels.Query(ctx, q)
		switch {
		case errors.Is(err, table.ErrToken):
			return cursor{}, false, fmt.Errorf("sweep channels: %w", errors.Join(append(errs, err)...))
		case err != nil:
			return from, false, fmt.Errorf("sweep channels: %w", errors.Join(append(errs, err)...))
		}
		for _, row := range from.after(page.Rows) {
			rec, err := readRecord(row)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if !task.due(rec, now) {
				continue
			}
			if err := task.do(ctx, rec, now, swept); err != nil {
				errs = append(errs, err)
			}
			if late() {
				return cursor{from.page, row.Partition, row.Key}, false, errors.Join(errs...)
			}
		}
		from = cursor{page: page.Next}
		if page.Next == "" || late() {
			return from, page.Next == "", errors.Join(errs...)
		}
	}
}

// stalled reports whether a deletion made no progress for StalledAfter.
func (c *Channels) stalled(rec record, now time.Time) bool {
	return rec.state == deleting && now.Sub(rec.touchedAt) >= c.opt.StalledAfter
}

// restart puts a message for a deletion. If the old message still exists, two
// processes work on the deletion, which is harmless.
func (c *Channels) restart(ctx context.Context, rec record, now time.Time, swept *Swept) error {
	if _, err := c.put(ctx, rec, 0); err != nil {
		return fmt.Errorf("restart the deletion of channel %q: %w", rec.channel, err)
	}
	swept.Restarted++

	// Update touchedAt so that the next sweep waits StalledAfter again. If the
	// row changed since, another process is making progress and no update is
	// needed.
	rec.touchedAt = now
	_, err := c.channels.Submit(ctx, table.Write{Verb: table.Replace, Row: rec.row(), If: rec.version})
	if err != nil && !table.IsConflict(err) {
		return fmt.Errorf("record the restart of the deletion of channel %q: %w", rec.channel, err)
	}
	return nil
}

// overdue reports whether a row must be cleared.
func (c *Channels) overdue(rec record, now time.Time) bool {
	switch rec.state {
	case creating:
		return now.Sub(rec.createdAt) >= c.opt.OrphanAfter
	case abandoned:
		return now.Sub(rec.finishedAt) >= keepAbandoned // finishedAt is zero if its fence was not removed yet
	case done:
		return now.Sub(rec.finishedAt) >= c.opt.KeepRecords
	}
	return false
}

func (c *Channels) clear(ctx context.Context, rec record, now time.Time, swept *Swept) (err error) {
	switch {
	case rec.state == creating:
		var out record // not rec, which the error names
		if out, err = c.ruleOut(ctx, rec); err == nil {
			err = c.clearFence(ctx, out, now, swept)
		}
	case rec.state == abandoned && rec.finishedAt.IsZero():
		err = c.clearFence(ctx, rec, now, swept)
	default:
		err = c.forget(ctx, rec, swept)
	}
	if err != nil && !table.IsConflict(err) {
		return fmt.Errorf("clear channel %q, incarnation %s: %w", rec.channel, rec.incarnation, err)
	}
	return nil
}

// clearFence removes the fence of a creation that was ruled out. The request
// that creates the fence may still be in flight, so the announcing row is kept
// for a while.
func (c *Channels) clearFence(ctx context.Context, rec record, now time.Time, swept *Swept) error {
	if err := c.dropFence(ctx, rec); err != nil {
		return err
	}
	swept.Fences++
	rec.finishedAt = now
	_, err := c.channels.Submit(ctx, table.Write{Verb: table.Replace, Row: rec.row(), If: rec.version})
	return err
}

// forget removes the old record of a deletion, or the row of a creation whose
// requests cannot arrive any more.
func (c *Channels) forget(ctx context.Context, rec record, swept *Swept) error {
	if rec.state == abandoned {
		if err := c.dropFence(ctx, rec); err != nil {
			return err
		}
	}
	_, err := c.channels.Submit(ctx, table.Write{Verb: table.Delete, Row: rec.row(), If: rec.version})
	if err == nil || errors.Is(err, ErrNotFound) {
		swept.Records++
	}
	return err
}
