package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// stopEarly is left of the caller's time when Handle stops working: enough to
// put a message and to answer.
const stopEarly = 15 * time.Second

// errStays is the reason of a round that went well and changed nothing.
var errStays = errors.New("what was deleted is still there")

// Handle carries out a message from the [Outbox]: it deletes the channel's
// blogs until none is left or time is up, and puts another message in that
// case. The message is to be deleted if the error is nil, and to be delivered
// again otherwise; but one with ErrMessage belongs into the dead-letter queue.
//
// Handle may be called with the same message any number of times, also at
// once, and never touches another incarnation than the message names.
func (c *Channels) Handle(ctx context.Context, text string) (Deletion, error) {
	m, err := parseMessage(text)
	if err != nil {
		return Deletion{}, fmt.Errorf("read the message: %w", err)
	}
	rec, err := c.work(ctx, m)
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
	d := &deletion{c: c, rec: rec}
	if fresh { // otherwise the first look at the blogs shows whether the fence is still there
		if err := d.removeFence(ctx); err != nil {
			return record{}, err
		}
	}
	if err := d.rounds(ctx, until); err != nil || d.rec.state == done {
		return d.rec, err
	}
	if _, err := c.put(ctx, rec, 0); err != nil {
		return record{}, fmt.Errorf("put a message to go on: %w", err)
	}
	c.opt.Step(StepContinued)
	return d.rec, nil
}

// markNamed returns the incarnation that a message names, marked for deletion.
// It usually is already; if whoever put the message died right after, it is
// done now.
func (c *Channels) markNamed(ctx context.Context, m message) (rec record, fresh bool, err error) {
	rec, err = c.record(ctx, m.Channel, m.Incarnation)
	switch {
	case errors.Is(err, ErrNotFound):
		return record{}, false, fmt.Errorf("there is no such incarnation, or no record of it any more: %w", ErrMessage)
	case err != nil:
		return record{}, false, err
	case rec.state == creating, rec.state == abandoned: // who deletes has seen the channel
		return record{}, false, fmt.Errorf("this incarnation never came to be: %w", ErrMessage)
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
	// Between our two reads somebody else has marked it.
	rec, err = c.record(ctx, m.Channel, m.Incarnation)
	if err == nil && rec.state == live {
		err = fmt.Errorf("no name stands for it: %w", ErrCorrupt)
	}
	return rec, false, err
}

// rounds works until the deletion is done or time is up. Rounds that fail are
// repeated as long as the deletion comes on, through others perhaps.
func (d *deletion) rounds(ctx context.Context, until time.Time) error {
	for idle := 0; ; {
		before := d.progress()
		found, err := d.round(ctx, portion)
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
		case found == last || time.Now().Before(until): // a last look is cheaper than another delivery
		case d.erased.Load() == 0:
			return err // going on with another message would hide that nothing works
		default:
			return nil
		}
	}
}

// until is when work has to stop.
func (c *Channels) until(ctx context.Context) time.Time {
	until := time.Now().Add(c.opt.HandleFor)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-stopEarly).Before(until) {
		return deadline.Add(-stopEarly)
	}
	return until
}
