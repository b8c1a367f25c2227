package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// mostCreations is how often Create begins anew when another channel of that
// name has come and gone meanwhile.
const mostCreations = 3

// errPassed says that the name was taken, and free again when it was looked at.
var errPassed = errors.New("channels of that name come and go: try again")

// Create makes a channel, or says that it was there already with the same
// owner. ErrOwned says that somebody else has one of that name.
//
// It announces the incarnation in Channels, then puts up the fence of the
// blogs, and then makes the announcement the channel, in one transaction with
// the name. The fence comes before the channel: the other way round a slow
// creator could put it up in a channel that is deleted already, and let blogs
// in. The announcement comes before the fence, so that fences nobody needs are
// found without a look at all blogs. And it is the announcement's version that
// makes the channel: who has changed it before has ruled the channel out, for
// good, however late the creator or its request arrives.
func (c *Channels) Create(ctx context.Context, name, owner string) (ch Channel, created bool, err error) {
	if err := cmp.Or(checkName(name), checkText("owner", owner, 1, maxOwner)); err != nil {
		return Channel{}, false, err
	}
	for n := range mostCreations {
		ch, created, err = c.create(ctx, name, owner)
		if n > 0 {
			err = unproven(err) // the channel of a time before may have come and gone
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
		Write{Verb: Insert, Row: made.nameRow()},
		Write{Verb: Replace, Row: made.row(), If: next.version})
	if err == nil {
		c.opt.Step(StepChannelPut)
		return made.public(), true, nil
	}
	if errors.Is(err, ErrRefused) {
		return Channel{}, false, err
	}
	// Somebody was faster, or the answer got lost.
	ch, found := c.named(ctx, name)
	switch {
	case found == nil && ch.incarnation == made.incarnation:
		return made.public(), true, nil
	case found != nil && !errors.Is(found, ErrNotFound):
		return Channel{}, false, unclear(err, found)
	case found != nil && passing(err):
		return Channel{}, false, err // it may still come; if not, the sweep clears up
	}
	mayCome := passing(err) || errors.Is(err, errRepeated)
	if left := c.withdraw(ctx, next); left != nil && mayCome {
		return Channel{}, false, unclear(err, left) // the other's channel may go, and ours come then
	}
	if found == nil {
		return sameOwner(ch, owner, nil)
	}
	return Channel{}, false, fmt.Errorf("%w (%v)", errPassed, err)
}

// prepare announces a new incarnation and puts up its fence. Each try is for
// another one: a fence whose request arrived late, for the second time, could
// let blogs in when channel and fence are long gone.
func (c *Channels) prepare(ctx context.Context, name, owner string) (record, error) {
	return try(ctx, func(ctx context.Context) (record, error) {
		now := time.Now().UTC()
		next := record{channel: name, incarnation: newIncarnation(now), owner: owner, state: creating, createdAt: now}
		versions, err := c.channels.SubmitOnce(ctx, Write{Verb: Insert, Row: next.row()})
		if err != nil {
			return record{}, fmt.Errorf("announce it: %w", err)
		}
		next.version = versions[0]
		c.opt.Step(StepAnnounced)
		if _, err = c.blogs.SubmitOnce(ctx, Write{Verb: Insert, Row: next.fenceRow()}); err != nil {
			return record{}, fmt.Errorf("put up the fence: %w", err)
		}
		c.opt.Step(StepFencePut)
		return next, nil
	})
}

// withdraw leaves nothing of a creation that has lost its race. An error says
// that it is not ruled out yet; that, and what else it could not do, is left to
// the sweep.
func (c *Channels) withdraw(ctx context.Context, announced record) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	rec, err := c.ruleOut(ctx, announced)
	switch {
	case errors.Is(err, ErrNotFound):
		// Ruled out so long ago that it is forgotten: this machine has slept for
		// a day, and nobody else looks for the fence that it has put up since.
		_ = c.dropFence(ctx, announced)
		return nil
	case errors.Is(err, ErrChanged):
		return nil // by somebody else, who clears up
	case err != nil:
		return err
	}
	if c.dropFence(ctx, rec) == nil {
		_, _ = c.channels.SubmitOnce(ctx, Write{Verb: Delete, Row: rec.row(), If: rec.version})
	}
	return nil
}

// ruleOut keeps an announced incarnation from becoming a channel. Only then may
// its fence go.
func (c *Channels) ruleOut(ctx context.Context, announced record) (record, error) {
	rec := announced
	rec.state, rec.startedAt = abandoned, time.Now().UTC()
	rec.touchedAt = rec.startedAt
	versions, err := c.channels.Submit(ctx, Write{Verb: Replace, Row: rec.row(), If: announced.version})
	if err != nil {
		return record{}, err
	}
	rec.version = versions[0]
	c.opt.Step(StepRuledOut)
	return rec, nil
}

// dropFence removes an incarnation's fence, if there is one.
func (c *Channels) dropFence(ctx context.Context, r record) error {
	_, err := c.blogs.Submit(ctx, Write{Verb: Delete, Row: Row{Partition: r.partition(), Key: fenceKey}, If: AnyVersion})
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
