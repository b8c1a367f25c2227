package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/trace"
)

// stopEarly is how long before the caller's deadline Handle stops working, so
// that it can put a message and return.
const stopEarly = 15 * time.Second

// errStays is the error of a round that succeeded and changed nothing.
var errStays = errors.New("the deleted blogs still exist")

// Handle carries out a message from the [Outbox]: it deletes the channel's
// blogs until none is left or its time is over. In the latter case it puts a
// message to continue. The caller deletes the message if the error is nil,
// moves it to the dead-letter queue after ErrMessage, and has it delivered
// again after any other error.
//
// Handle may be called with the same message any number of times, also
// concurrently. It never changes another incarnation than the one in the
// message.
func (c *Channels) Handle(ctx context.Context, text string) (Deletion, error) {
	m, err := parseMessage(text)
	if err != nil {
		return Deletion{}, fmt.Errorf("read the message: %w", err)
	}
	rec, err := c.work(trace.Within(ctx, m.TraceParent), m)
	if err != nil {
		return Deletion{}, fmt.Errorf("delete channel %q, incarnation %s: %w", m.Channel, m.Incarnation, err)
	}
	return rec.deletion(), nil
}

func (c *Channels) work(ctx context.Context, m message) (record, error) {
	until := c.until(ctx)
	rec, fresh, err := c.markNamed(ctx, m)
	if err != nil || rec.state == done {
		return rec, err
	}
	if fresh { // otherwise the first read of the blogs shows whether the fence still exists
		if err := c.dropFence(ctx, rec); err != nil {
			return record{}, err
		}
	}
	d := &deletion{c: c, rec: rec}
	if err := d.rounds(ctx, until); err != nil || d.rec.state == done {
		return d.rec, err
	}
	if _, err := c.put(ctx, rec, 0); err != nil {
		return record{}, fmt.Errorf("put a message to continue: %w", err)
	}
	return d.rec, nil
}

// markNamed returns the incarnation that a message names, marked for deletion.
// Usually it is already marked, unless the process that put the message died
// directly afterwards.
func (c *Channels) markNamed(ctx context.Context, m message) (rec record, fresh bool, err error) {
	rec, err = c.record(ctx, m.Channel, m.Incarnation)
	switch {
	case errors.Is(err, ErrNotFound):
		return record{}, false, fmt.Errorf("the incarnation does not exist, or its record was removed: %w", ErrMessage)
	case err != nil:
		return record{}, false, err
	case rec.state == creating, rec.state == abandoned: // only a live channel can be deleted
		return record{}, false, fmt.Errorf("this incarnation never became a channel: %w", ErrMessage)
	case rec.state != live:
		return rec, false, nil
	}
	name, err := c.named(ctx, m.Channel)
	if err == nil && name.incarnation == m.Incarnation {
		rec, err = c.mark(ctx, name)
		return rec, true, err
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return record{}, false, err
	}
	// Another process marked it between our two reads.
	rec, err = c.record(ctx, m.Channel, m.Incarnation)
	if err == nil && rec.state == live {
		err = fmt.Errorf("its name row is missing: %w", ErrCorrupt)
	}
	return rec, false, err
}

// rounds works until the deletion is done or time is over. It repeats failed
// rounds as long as the deletion makes progress, also by other processes.
func (d *deletion) rounds(ctx context.Context, until time.Time) error {
	for idle := 0; ; {
		before := d.progress()
		found, err := d.round(ctx)
		if idle++; d.progress() != before {
			idle = 0
		}
		switch {
		case found == finished:
			return nil
		case ctx.Err() != nil:
			return cmp.Or(err, ctx.Err())
		case idle == maxIdleRounds:
			return fmt.Errorf("%w: %d rounds in a row, the last one: %w", ErrNoProgress, idle, cmp.Or(err, errStays))
		case found == last || time.Now().Before(until): // a last read is cheaper than another delivery
		case d.erased.Load() == 0:
			return err // a message to continue would hide that nothing succeeds
		default:
			return nil
		}
	}
}

// until returns the time at which work must stop.
func (c *Channels) until(ctx context.Context) time.Time {
	until := time.Now().Add(c.opt.HandleFor)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-stopEarly).Before(until) {
		return deadline.Add(-stopEarly)
	}
	return until
}
