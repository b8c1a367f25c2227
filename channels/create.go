package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/table"
)

// maxCreations is how often Create starts over when another channel of that
// name was created and deleted in between.
const maxCreations = 3

// errPassed reports that the name was taken, and free again when it was read.
var errPassed = errors.New("channels of that name were created and deleted at the same time: try again")

// Create creates a channel, or returns the existing one of the same owner.
// ErrOwned reports that a channel of that name has another owner.
//
// It announces the incarnation in Channels, creates the fence in Blogs, and
// then turns the announcement into the channel, in one transaction with the
// name row. The fence comes before the channel; otherwise a slow creator could
// create it in a channel that is already deleted, so that blogs could be added
// there. The announcement comes before the fence, so that the sweep finds
// unused fences without reading all blogs. The last transaction requires the
// announcement's version. A process that changes the announcement first
// therefore rules the channel out permanently, however late the creator or its
// request arrives.
func (c *Channels) Create(ctx context.Context, name, owner string) (ch Channel, created bool, err error) {
	if err := cmp.Or(CheckName(name), checkText("owner", owner, 1, maxOwner)); err != nil {
		return Channel{}, false, err
	}
	for n := range maxCreations {
		ch, created, err = c.create(ctx, name, owner)
		if n > 0 && !errors.Is(err, ErrOwned) {
			err = table.Unclear(err) // our channel of an earlier attempt may have existed
		}
		if !errors.Is(err, errPassed) {
			break
		}
	}
	if err != nil {
		return Channel{}, false, fmt.Errorf("create channel %q: %w", name, err)
	}
	return ch, created, nil
}

func (c *Channels) create(ctx context.Context, name, owner string) (Channel, bool, error) {
	ch, err := c.named(ctx, name)
	if !errors.Is(err, ErrNotFound) {
		return sameOwner(ch, owner, err)
	}
	next, err := c.prepare(ctx, name, owner)
	if err != nil {
		return Channel{}, false, err
	}
	made := next
	made.state = live
	_, err = c.channels.Submit(ctx,
		table.Write{Verb: table.Insert, Row: made.nameRow()},
		table.Write{Verb: table.Replace, Row: made.row(), If: next.version})
	if err == nil {
		return made.public(), true, nil
	}
	// Another creator was faster, or the answer was lost.
	row, found, readErr := c.channels.ReadBack(ctx, err, channelPartition(name), nameKey)
	if found {
		ch, readErr = readName(row)
	}
	switch {
	case readErr != nil:
		return Channel{}, false, readErr
	case found && ch.incarnation == made.incarnation:
		return made.public(), true, nil
	case !found && !table.IsConflict(err):
		return Channel{}, false, err // the request may still arrive; if not, the sweep cleans up
	}
	if left := c.withdraw(ctx, next); left != nil && errors.Is(err, ErrUnclear) {
		// If the other channel is deleted, our late request could still
		// create ours.
		return Channel{}, false, table.Unclear(fmt.Errorf("%v; rule it out: %w", err, left))
	}
	if found {
		return sameOwner(ch, owner, nil)
	}
	return Channel{}, false, fmt.Errorf("%w (%v)", errPassed, err)
}

// prepare announces a new incarnation and creates its fence. Each try uses a
// new incarnation: if a request for a fence arrived again after the channel was
// deleted, blogs could be added there. No caller sees the rows of a failed try,
// so it counts as changing nothing.
func (c *Channels) prepare(ctx context.Context, name, owner string) (record, error) {
	return table.Retry(ctx, func(ctx context.Context) (record, error) {
		now := time.Now().UTC()
		next := record{channel: name, incarnation: newIncarnation(now), owner: owner, state: creating, createdAt: now}
		versions, err := c.channels.SubmitOnce(ctx, table.Write{Verb: table.Insert, Row: next.row()})
		if err != nil {
			return record{}, fmt.Errorf("announce the channel: %w", err)
		}
		next.version = versions[0]
		if _, err = c.blogs.SubmitOnce(ctx, table.Write{Verb: table.Insert, Row: next.fenceRow()}); err != nil {
			return record{}, fmt.Errorf("create the fence: %w", err)
		}
		return next, nil
	})
}

// withdraw removes the rows of a creation that lost its race. An error means
// that the creation is not ruled out yet. The sweep does what withdraw fails to
// do.
func (c *Channels) withdraw(ctx context.Context, announced record) error {
	ctx, cancel := context.WithTimeout(ctx, table.TryTimeout)
	defer cancel()
	rec, err := c.ruleOut(ctx, announced)
	switch {
	case errors.Is(err, ErrNotFound):
		// Its row has expired (this machine slept for a day), so no sweep knows of
		// the fence that the creation left: remove it here.
		_ = c.dropFence(ctx, announced)
		return nil
	case errors.Is(err, ErrChanged):
		return nil // ruled out by another process, which cleans up
	case err != nil:
		return err
	}
	if c.dropFence(ctx, rec) == nil {
		_, _ = c.channels.SubmitOnce(ctx, table.Write{Verb: table.Delete, Row: rec.row(), If: rec.version})
	}
	return nil
}

// ruleOut prevents an announced incarnation from becoming a channel. Its fence
// may only be removed afterwards.
func (c *Channels) ruleOut(ctx context.Context, announced record) (record, error) {
	rec := announced
	rec.state, rec.startedAt = abandoned, time.Now().UTC()
	rec.touchedAt = rec.startedAt
	versions, err := c.channels.Submit(ctx, table.Write{Verb: table.Replace, Row: rec.row(), If: announced.version})
	if err != nil {
		return record{}, err
	}
	rec.version = versions[0]
	return rec, nil
}

// dropFence removes an incarnation's fence, if it exists. No blog can be added
// afterwards.
func (c *Channels) dropFence(ctx context.Context, r record) error {
	_, err := c.blogs.Submit(ctx, table.Write{Verb: table.Delete, Row: table.Row{Partition: r.partition(), Key: fenceKey}, If: table.AnyVersion})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("remove the fence: %w", err)
	}
	return nil
}

func sameOwner(ch record, owner string, err error) (Channel, bool, error) {
	switch {
	case err != nil:
		return Channel{}, false, err
	case ch.owner != owner:
		return Channel{}, false, ErrOwned
	}
	return ch.public(), false, nil
}
