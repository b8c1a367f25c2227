package channels

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// sweepPage is small because each of its rows may cost some requests, and the
// clock is looked at after each page.
const sweepPage = 100

// Swept says what a [Channels.Sweep] did.
type Swept struct {
	Restarted int `json:"restarted"` // deletions that stood still: a message was put for each
	Fences    int `json:"fences"`    // fences removed because their channel never came to be
	Records   int `json:"records"`   // records of deletions removed because of their age

	// Next is where the next sweep should begin, because time was up here; ""
	// if everything was seen.
	Next string `json:"next,omitempty"`
}

// Sweep finds what fell between two requests and never was taken up again:
// deletions whose message was lost or died in the dead-letter queue, and
// fences whose channel never came to be. It also removes old records. It is
// meant to be called every few minutes, with the Next of the call before.
//
// What it cannot do it reports and goes on; it stops early enough to answer
// before its ctx ends. Several may sweep at once.
func (c *Channels) Sweep(ctx context.Context, from string) (Swept, error) {
	var swept Swept
	until := c.until(ctx)
	now := time.Now().UTC()
	scans := []struct {
		table patient
		q     Query
		visit func(context.Context, Row, time.Time, *Swept) error
	}{
		{c.channels, Query{Column: "state", Value: string(deleting)}, c.restart},
		{c.blogs, Query{Key: fenceKey, Column: seenColumn, Value: seenNot}, c.clearFence},
		{c.channels, Query{Column: "state", Value: string(done)}, c.expire},
		{c.channels, Query{Column: "state", Value: string(abandoned)}, c.expire},
	}
	var errs []error
	first, after := parseCursor(from)
	for i := first; i < len(scans); i++ {
		q := scans[i].q
		q.Top, q.After = sweepPage, after
		after = ""
		for {
			page, err := scans[i].table.Query(ctx, q)
			if err != nil {
				return swept, fmt.Errorf("sweep channels: %w", errors.Join(append(errs, err)...))
			}
			for _, row := range page.Rows {
				if err := scans[i].visit(ctx, row, now, &swept); err != nil {
					errs = append(errs, err)
				}
			}
			if q.After = page.Next; q.After == "" {
				break
			}
			if ctx.Err() != nil || !time.Now().Before(until) {
				swept.Next = formatCursor(i, q.After)
				return swept, errors.Join(errs...)
			}
		}
	}
	return swept, errors.Join(errs...)
}

// restart puts a message for a deletion that has not come on for long. If the
// old one is still about, two will work on it: that is harmless.
func (c *Channels) restart(ctx context.Context, row Row, now time.Time, swept *Swept) error {
	rec, err := readRecord(row)
	if err != nil || rec.state != deleting || now.Sub(rec.touchedAt) < c.opt.StalledAfter {
		return err
	}
	if _, err := c.put(ctx, rec, 0); err != nil {
		return fmt.Errorf("restart the deletion of channel %q: %w", rec.channel, err)
	}
	swept.Restarted++
	c.opt.Step(StepRestarted)

	// The next sweep shall wait as long as this one did. If somebody works on
	// the row after all, the better.
	rec.touchedAt = now
	_, err = c.channels.Submit(ctx, Write{Verb: Replace, Row: rec.row(), If: rec.version})
	if err != nil && !errors.Is(err, ErrChanged) && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("note the restart of the deletion of channel %q: %w", rec.channel, err)
	}
	return nil
}

// clearFence removes a fence whose channel never came to be. Before that it
// puts a row where the channel's own would have to go, so that a creator that
// was only slow, or its request, comes too late for good.
func (c *Channels) clearFence(ctx context.Context, row Row, now time.Time, swept *Swept) error {
	fence, err := readFence(row)
	if err != nil || now.Sub(fence.createdAt) < c.opt.OrphanAfter {
		return err
	}
	failed := func(err error) error {
		return fmt.Errorf("clear the fence of channel %q, incarnation %s: %w", fence.channel, fence.incarnation, err)
	}
	rec, err := c.record(ctx, fence.channel, fence.incarnation)
	switch {
	case errors.Is(err, ErrNotFound):
		rec = fence
		rec.state, rec.startedAt, rec.touchedAt, rec.finishedAt = abandoned, now, now, now
		_, err = c.channels.Submit(ctx, Write{Verb: Insert, Row: rec.row()})
		if errors.Is(err, ErrExists) {
			return nil // the next sweep sees what it is
		}
		if err != nil {
			return failed(err)
		}
		c.opt.Step(StepRuledOut)
	case err != nil:
		return failed(err)
	case rec.state == live:
		_, err = c.blogs.Submit(ctx, touchFence(row.Partition))
		if err != nil && !errors.Is(err, ErrNotFound) {
			return failed(err)
		}
		return nil
	case rec.state == deleting:
		return nil // the deletion takes its fence with it
	}
	d := &deletion{c: c, rec: rec}
	if err := d.removeFence(ctx); err != nil {
		return failed(err)
	}
	swept.Fences++
	return nil
}

// expire removes a record when nobody can ask for it any more.
func (c *Channels) expire(ctx context.Context, row Row, now time.Time, swept *Swept) error {
	rec, err := readRecord(row)
	if err != nil || now.Sub(rec.finishedAt) < c.opt.KeepRecords {
		return err
	}
	_, err = c.channels.Submit(ctx, Write{Verb: Delete, Row: row, If: rec.version})
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrChanged) {
		return fmt.Errorf("remove the record of channel %q, incarnation %s: %w", rec.channel, rec.incarnation, err)
	}
	swept.Records++
	return nil
}

// A cursor is the number of a scan and the store's token within it. One that
// makes no sense begins at the beginning: sweeping twice is harmless.
func formatCursor(scan int, after string) string { return strconv.Itoa(scan) + ":" + after }

func parseCursor(cursor string) (scan int, after string) {
	number, after, ok := strings.Cut(cursor, ":")
	scan, err := strconv.Atoi(number)
	if !ok || err != nil || scan < 0 {
		return 0, ""
	}
	return scan, after
}
