package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/table"
)

// maxCreations is how often Create starts over when another channel of that
// name was created and deleted in between.
const maxCreations = 3

// errPassed reports that the name was taken, and free again when it was read.
var errPassed = errors.New("channels of that name come and go: try again")

// Create makes a channel, or returns the one that exists with the same owner.
// ErrOwned reports that a channel of that name has another owner.
//
// It announces the incarnation in Channels, then puts up the fence of the
// blogs, and then turns the announcement into the channel, in one transaction
// with the name. The fence comes before the channel: the other way round a slow
// creator could put it up in a channel that is deleted already, and let blogs
// in. The announcement comes before the fence, so that the sweep finds unused
// fences without reading all blogs. The last transaction requires the
// announcement's version: a process that changes it first rules the channel
// out for good, however late the creator or its request arrives.
func (c *Channels) Create(ctx context.Context, name, owner string) (ch Channel, created bool, err error) {
	if err := cmp.Or(checkName(name), checkText("owner", owner, 1, maxOwner)); err != nil {
		return Channel{}, false, err
	}
	for n := range maxCreations {
		ch, created, err = c.create(ctx, name, owner)
		if n > 0 && !errors.Is(err, ErrOwned) {
			err = table.Unclear(err) // our channel of an earlier round may have existed
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
	// Another creator was faster, or the answer got lost.
	row, found, readErr := c.channels.ReadBack(ctx, err, channelPartition(name), nameKey)
	if found {
		ch, readErr = readName(row)
	}
	switch {
	case readErr != nil:
		return Channel{}, false, readErr
	case found && ch.incarnation == made.incarnation:
		return made.public(), true, nil
	case !found && !raced(err):
		return Channel{}, false, err // it may still come; if not, the sweep cleans up
	}
	if left := c.withdraw(ctx, next); left != nil && errors.Is(err, ErrUnclear) {
		// The other channel may be deleted, and ours come then.
		return Channel{}, false, table.Unclear(fmt.Errorf("%v; rule it out: %w", err, left))
	}
	if found {
		return sameOwner(ch, owner, nil)
	}
	return Channel{}, false, fmt.Errorf("%w (%v)", errPassed, err)
}

// raced reports whether a row was not as the write required: another process
// changed, removed or inserted it.
func raced(err error) bool {
	return errors.Is(err, ErrChanged) || errors.Is(err, ErrNotFound) || errors.Is(err, table.ErrExists)
}

// prepare announces a new incarnation and puts up its fence. Each try makes
// another incarnation: a fence whose request arrives late, for the second time,
// could let blogs in after channel and fence are gone. No caller sees what a
// failed try leaves behind, so it counts as changing nothing.
func (c *Channels) prepare(ctx context.Context, name, owner string) (record, error) {
	return table.Retry(ctx, func(ctx context.Context) (record, error) {
		now := time.Now().UTC()
		next := record{channel: name, incarnation: newIncarnation(now), owner: owner, state: creating, createdAt: now}
		versions, err := c.channels.SubmitOnce(ctx, table.Write{Verb: table.Insert, Row: next.row()})
		if err != nil {
			return record{}, fmt.Errorf("announce it: %w", err)
		}
		next.version = versions[0]
		if _, err = c.blogs.SubmitOnce(ctx, table.Write{Verb: table.Insert, Row: next.fenceRow()}); err != nil {
			return record{}, fmt.Errorf("put up the fence: %w", err)
		}
		return next, nil
	})
}

// withdraw removes what is left of a creation that lost its race. An error
// means that it is not ruled out yet. The sweep does what withdraw cannot do.
func (c *Channels) withdraw(ctx context.Context, announced record) error {
	ctx, cancel := context.WithTimeout(ctx, table.TryTimeout)
	defer cancel()
	rec, err := c.ruleOut(ctx, announced)
	switch {
	case errors.Is(err, ErrNotFound):
		// Ruled out so long ago that its row was removed: this machine slept for
		// a day, and the sweep does not know of the fence it put up since.
		_ = c.dropFence(ctx, announced)
		return nil
	case errors.Is(err, ErrChanged):
		return nil // by another process, which cleans up
	case err != nil:
		return err
	}
	if c.dropFence(ctx, rec) == nil {
		_, _ = c.channels.SubmitOnce(ctx, table.Write{Verb: table.Delete, Row: rec.row(), If: rec.version})
	}
	return nil
}

// ruleOut keeps an announced incarnation from becoming a channel. Only then may
// its fence go.
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

// dropFence removes an incarnation's fence, if it exists: from then on no blog can
// be added.
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
