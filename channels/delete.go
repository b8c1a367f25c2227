package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Deletion is the record of a channel's deletion.
type Deletion struct {
	Channel     string    `json:"channel"`
	Incarnation string    `json:"incarnation"`
	State       string    `json:"state"`   // Running or Done
	Deleted     int64     `json:"deleted"` // blogs found so far, the last of which may still be on their way out
	StartedAt   time.Time `json:"startedAt"`
	FinishedAt  time.Time `json:"finishedAt,omitzero"`
}

// What [Deletion.State] says.
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

// Delete accepts the deletion of a channel and begins with it. When it returns
// without an error, the name is free, no blog can be added any more and all
// that are left will go, whoever dies; a small channel is gone by then.
//
// After an error the deletion may come all the same. Calling again is right in
// any case: what is being deleted, or was, answers with its record.
//
// The incarnation, if not "", keeps a caller from deleting a channel that it
// has not seen: ErrChanged says that the name stands for another one.
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

// accept takes the steps after which nothing can stop the deletion, and then
// as many more as there is time for. Their order is what makes it safe: first
// the message, so that somebody is in charge whoever dies; then the name, so
// that nobody finds the channel any more; then the fence, so that blogs can
// only become fewer; only then the blogs.
func (c *Channels) accept(ctx context.Context, name record) (record, error) {
	receipt, err := c.put(ctx, name, c.opt.MessageDelay)
	if err != nil {
		return record{}, err
	}
	c.opt.Step(StepMessagePut)

	// From here on no refusal says that nothing will come of it.
	rec, err := c.mark(ctx, name)
	if err != nil || rec.state == done {
		return rec, unproven(err)
	}
	d := &deletion{c: c, rec: rec}
	if err := d.removeFence(ctx); err != nil {
		return record{}, unproven(err)
	}

	// It is accepted. What fails from here on is repeated by Handle, which
	// will also say what is wrong.
	if c.opt.AcceptFor > 0 && d.begin(ctx) && c.takeBack(ctx, receipt) == nil {
		c.opt.Step(StepMessageGone)
	}
	return d.rec, nil
}

// begin deletes what there is time for, and says whether that was all. It does
// not begin a round that time would cut: half of that would have to be done
// again.
func (d *deletion) begin(ctx context.Context) bool {
	until := time.Now().Add(d.c.opt.AcceptFor)
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for n := 0; ; n++ {
		begun, limit := time.Now(), acceptPortion(n)
		found, err := d.round(ctx, limit)
		if err == nil && found == last {
			found, err = d.round(ctx, portion)
		}
		if err != nil || found == finished {
			return err == nil
		}
		each := time.Since(begun) / time.Duration(limit)
		if time.Until(until) < each*time.Duration(acceptPortion(n+1)) {
			return false
		}
	}
}

// mark frees the name and marks its incarnation for deletion, in one
// transaction. The name's version guards both: only one such transaction can
// succeed, and none once the name stands for something else.
func (c *Channels) mark(ctx context.Context, name record) (record, error) {
	now := time.Now().UTC()
	next := name
	next.state, next.startedAt, next.touchedAt = deleting, now, now
	versions, err := c.channels.Submit(ctx,
		Write{Verb: Delete, Row: name.nameRow(), If: name.version},
		Write{Verb: Replace, Row: next.row(), If: AnyVersion})
	if err == nil {
		next.version = versions[1]
		c.opt.Step(StepMarked)
		return next, nil
	}
	if errors.Is(err, ErrRefused) {
		return record{}, err
	}
	stored, found := c.record(ctx, name.channel, name.incarnation)
	switch {
	case found != nil:
		return record{}, unclear(err, found)
	case stored.state == live:
		return record{}, err
	}
	return stored, nil // somebody else marked it, or we did and did not hear of it
}

// deleteAgain answers for a name that stands for nothing.
func (c *Channels) deleteAgain(ctx context.Context, name, incarnation string) (Deletion, error) {
	rec, running, err := c.deleted(ctx, name, incarnation)
	for _, r := range running {
		// The first call may have died right before this, and its caller must
		// not hear of success from this one.
		d := &deletion{c: c, rec: r}
		err = cmp.Or(err, unproven(d.removeFence(ctx)))
	}
	if err != nil {
		return Deletion{}, fmt.Errorf("delete channel %q: %w", name, err)
	}
	return rec.deletion(), nil
}

// deleteAnother answers for an incarnation that the name does not stand for.
func (c *Channels) deleteAnother(ctx context.Context, name, incarnation string) (Deletion, error) {
	d, err := c.deleteAgain(ctx, name, incarnation)
	if errors.Is(err, ErrNotFound) {
		return Deletion{}, fmt.Errorf("delete channel %q: another one has its name: %w", name, ErrChanged)
	}
	return d, err
}

// Deletion returns the record of a deletion: of that incarnation or, if that
// is "", of the latest one under this name. ErrNotFound says that there is
// none.
func (c *Channels) Deletion(ctx context.Context, name, incarnation string) (Deletion, error) {
	rec, _, err := c.deleted(ctx, name, incarnation)
	if err != nil {
		return Deletion{}, fmt.Errorf("deletion of channel %q: %w", name, err)
	}
	return rec.deletion(), nil
}

// deleted finds the record behind Deletion, and the deletions that are under
// way among those it has looked at.
func (c *Channels) deleted(ctx context.Context, name, incarnation string) (rec record, running []record, err error) {
	if err := checkName(name); err != nil {
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

// latestDeleted finds the deletion that began last, or one that is under way:
// the clocks of those who begin deletions differ. The newest incarnations come
// first, give or take what the clocks of their creators do.
func (c *Channels) latestDeleted(ctx context.Context, name string) (latest record, running []record, err error) {
	q := Query{Partition: channelPartition(name), Top: 100}
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
