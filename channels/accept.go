package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/table"
)

// Deletion is the record of a channel's deletion.
type Deletion struct {
	Channel     string    `json:"channel"`
	Incarnation string    `json:"incarnation"`
	State       string    `json:"state"`   // Running or Done
	Deleted     int64     `json:"deleted"` // blogs counted so far; the last ones may not be deleted yet
	StartedAt   time.Time `json:"startedAt"`
	FinishedAt  time.Time `json:"finishedAt,omitzero"`
}

// The values of [Deletion.State].
const (
	Running = "running"
	Done    = "done"
)

func (r record) deletion() Deletion {
	d := Deletion{
		Channel:     r.channel,
		Incarnation: r.incarnation,
		State:       Running,
		Deleted:     r.counted,
		StartedAt:   r.startedAt,
	}
	if r.state == done {
		d.State, d.FinishedAt = Done, r.finishedAt
	}
	return d
}

// Delete accepts the deletion of a channel and begins it. When it returns
// without an error, the name is free, no blog can be added any more and the
// remaining ones will be deleted, whichever process dies. A small channel is
// completely deleted by then.
//
// After ErrUnclear the deletion may still happen. Calling Delete again is
// always safe: it returns the record of a deletion that is running or done.
//
// The incarnation, if not "", prevents the deletion of a channel that the
// caller has not seen: ErrChanged reports that another channel has the name.
func (c *Channels) Delete(ctx context.Context, name, incarnation string) (Deletion, error) {
	ch, err := c.find(ctx, name)
	switch {
	case errors.Is(err, ErrNotFound):
		return c.deleteAgain(ctx, name, incarnation)
	case err != nil:
		return Deletion{}, err
	case incarnation != "" && incarnation != ch.incarnation:
		return c.deleteAnother(ctx, name, incarnation)
	}
	rec, err := c.accept(ctx, ch)
	if err != nil {
		return Deletion{}, fmt.Errorf("delete channel %q: %w", name, err)
	}
	return rec.deletion(), nil
}

// accept takes the steps after which nothing can stop the deletion, and then as
// many more as time allows. Their order makes the deletion safe: first the
// message, so that Handle does everything if this process dies; then the name,
// so that no reader finds the channel; then the fence, so that no blog can be
// added; only then the blogs.
func (c *Channels) accept(ctx context.Context, name record) (record, error) {
	receipt, err := c.put(ctx, name, c.opt.MessageDelay)
	if err != nil {
		return record{}, err
	}
	// From here on the message may delete the channel, whatever fails.
	rec, err := c.mark(ctx, name)
	if err != nil || rec.state == done {
		return rec, table.Unclear(err)
	}
	if err := c.dropFence(ctx, rec); err != nil {
		return record{}, table.Unclear(err)
	}
	// The deletion is accepted. If a later step fails, Handle repeats it and
	// reports the error.
	d := &deletion{c: c, rec: rec}
	if c.opt.AcceptFor > 0 && d.begin(ctx) {
		c.takeBack(ctx, receipt)
	}
	return d.rec, nil
}

// begin deletes blogs for AcceptFor and reports whether the deletion is done.
// It does not begin a round that would be cut off, because part of that round
// would have to be repeated.
func (d *deletion) begin(ctx context.Context) bool {
	until := time.Now().Add(d.c.opt.AcceptFor)
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		begun := time.Now()
		found, err := d.round(ctx)
		switch {
		case err != nil || found == finished:
			return err == nil
		case found == more && time.Until(until) < time.Since(begun):
			return false
		}
	}
}

// mark frees the name and marks its incarnation for deletion, in one
// transaction. The name's version guards both: only one such transaction can
// succeed, and none once another incarnation has the name.
func (c *Channels) mark(ctx context.Context, name record) (record, error) {
	now := time.Now().UTC()
	next := name
	next.state, next.startedAt, next.touchedAt = deleting, now, now
	versions, err := c.channels.Submit(ctx,
		table.Write{Verb: table.Delete, Row: name.nameRow(), If: name.version},
		table.Write{Verb: table.Replace, Row: next.row(), If: table.AnyVersion})
	if err == nil {
		next.version = versions[1]
		return next, nil
	}
	stored, readErr := c.recordAfter(ctx, err, name.channel, name.incarnation)
	switch {
	case readErr != nil:
		return record{}, readErr
	case stored.state == live:
		return record{}, err
	}
	return stored, nil // marked by another process, or by us and the answer was lost
}

// deleteAgain is Delete for a channel that does not have the name any more. It
// returns the record of its deletion.
func (c *Channels) deleteAgain(ctx context.Context, name, incarnation string) (Deletion, error) {
	rec, running, err := c.deleted(ctx, name, incarnation)
	for _, r := range running {
		// The first call may have died before this step, and no call may
		// return success without it.
		err = cmp.Or(err, table.Unclear(c.dropFence(ctx, r)))
	}
	if err != nil {
		return Deletion{}, fmt.Errorf("delete channel %q: %w", name, err)
	}
	return rec.deletion(), nil
}

// deleteAnother is deleteAgain for an incarnation while another one has the
// name.
func (c *Channels) deleteAnother(ctx context.Context, name, incarnation string) (Deletion, error) {
	d, err := c.deleteAgain(ctx, name, incarnation)
	if errors.Is(err, ErrNotFound) {
		return Deletion{}, fmt.Errorf("delete channel %q: another channel has its name: %w", name, ErrChanged)
	}
	return d, err
}

// Deletion returns the record of a deletion: that of the incarnation or, if the
// incarnation is "", the latest one under this name. ErrNotFound reports that
// no record exists.
func (c *Channels) Deletion(ctx context.Context, name, incarnation string) (Deletion, error) {
	rec, _, err := c.deleted(ctx, name, incarnation)
	if err != nil {
		return Deletion{}, fmt.Errorf("deletion of channel %q: %w", name, err)
	}
	return rec.deletion(), nil
}

// deleted returns the record that Deletion reports, and the records of running
// deletions that it read on the way.
func (c *Channels) deleted(ctx context.Context, name, incarnation string) (rec record, running []record, err error) {
	if err := CheckName(name); err != nil {
		return record{}, nil, err
	}
	if incarnation == "" {
		return c.latestDeleted(ctx, name)
	}
	if err := checkIncarnation(incarnation); err != nil {
		return record{}, nil, err
	}
	rec, err = c.record(ctx, name, incarnation)
	switch {
	case err != nil:
		return record{}, nil, err
	case rec.state == deleting:
		return rec, []record{rec}, nil
	case rec.state != done:
		return record{}, nil, ErrNotFound
	}
	return rec, nil, nil
}

// latestDeleted returns the running deletion that started last or, if none is
// running, the finished one that started last. A running one comes first
// because the clocks of the processes that start deletions differ. Newer
// incarnations are read first, as far as the clocks of their creators agree.
func (c *Channels) latestDeleted(ctx context.Context, name string) (latest record, running []record, err error) {
	q := table.Query{Partition: channelPartition(name), Top: 100}
	for {
		page, err := c.channels.Query(ctx, q)
		if err != nil {
			return record{}, nil, err
		}
		for _, row := range page.Rows {
			if row.Key == nameKey {
				continue
			}
			rec, err := readRecord(row)
			switch {
			case err != nil:
				return record{}, nil, err
			case rec.state == deleting:
				running = append(running, rec)
			case rec.state == done && rec.startedAt.After(latest.startedAt):
				latest = rec
			}
		}
		for i, rec := range running {
			if i == 0 || rec.startedAt.After(latest.startedAt) {
				latest = rec
			}
		}
		if latest.channel != "" {
			return latest, running, nil
		}
		if page.Next == "" {
			return record{}, nil, ErrNotFound
		}
		q.After = page.Next
	}
}
