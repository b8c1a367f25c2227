package gate

import (
	"errors"
	"fmt"
	"slices"
)

// change is the protocol by which an administrator changes a gate. It is pure
// state: it returns the request to send next and takes the answer, so that a
// test can drive several of them through every order of events.
//
// The rules that make one winner per release:
//
//   - A write is conditional on the version that came with the very document
//     from which it is computed.
//   - After a write with an unknown outcome the store is read. If the history
//     names our operation, it was done. If the version is the old one, the same
//     write is sent again, and it does not matter which of the two arrives. If
//     the version is another, ours can never be done, since versions do not
//     come back.
type change struct {
	gate   string
	to     string // released or closed
	by     string
	reason string
	op     string // unique to this change among all, for ever
	force  bool

	known   bool  // held is what the store holds, as far as we know
	held    Value // the last answer of the store
	state   State // held, parsed
	corrupt error // why held cannot be used; nil if it can

	pending *Value // a write whose outcome is not known
	base    Value  // the value that pending is to replace
	planned State  // the gate after pending
}

// verdict is the meaning of an answer for a change.
type verdict int

const (
	again    verdict = iota // send what request returns now
	lostRace                // another writer was faster: wait, then try again
	unclear                 // the store failed, a write may have been done: wait, then try again
	changed                 // done: the change was made
	asItWas                 // done: there was nothing to change
)

// request returns a write of new in the place of old; if ok is false, the gate
// is to be read. It fails if the gate cannot be changed.
func (c *change) request() (old, new Value, ok bool, err error) {
	if !c.known {
		return Value{}, Value{}, false, nil
	}
	if c.pending == nil {
		if err := c.decide(); err != nil {
			return Value{}, Value{}, false, err
		}
	}
	return c.base, *c.pending, true, nil
}

// decide computes the write from what the store holds.
func (c *change) decide() error {
	from, replaced := c.state, ""
	switch {
	case c.corrupt == nil:
	case !c.force:
		return c.corrupt
	case newer(c.held.Text):
		return fmt.Errorf("%w; a newer version of this program wrote it, so it is not replaced by force: update this program", c.corrupt)
	default:
		// Generation 0 admits no waiter, and the clock makes the next
		// release greater than every one before.
		from, replaced = State{Gate: c.gate}, quote(c.held.Text)
	}
	generation := from.Generation
	if c.to == released {
		generation = max(generation+1, c.held.ReadAt.UnixMilli())
	}
	if generation > MaxGeneration {
		return fmt.Errorf("%w: its generation cannot be counted further", ErrCorrupt)
	}
	document := next(from, Transition{
		Change: c.to, Generation: generation, At: c.held.ReadAt.UTC(), By: c.by, Reason: c.reason, Operation: c.op, Replaced: replaced,
	})
	c.base, c.pending, c.planned = c.held, &Value{Text: document.encode()}, document.state(c.gate)
	return nil
}

// loaded takes the answer to a Load.
func (c *change) loaded(v Value, err error) (verdict, error) {
	if err != nil {
		return unclear, nil
	}
	c.known, c.held = true, v
	c.state, c.corrupt = StateOf(c.gate, v)
	if c.pending != nil {
		if slices.ContainsFunc(c.state.History, func(t Transition) bool { return t.Operation == c.op }) {
			return changed, nil
		}
		if c.held.Version == c.base.Version {
			return again, nil // not done yet, and perhaps on its way
		}
		switch {
		case c.corrupt != nil && !c.force:
			return again, fmt.Errorf("%w: %w", ErrUnclear, c.corrupt)
		case c.forgotten():
			return again, fmt.Errorf("%w: its history no longer goes back to that change", ErrUnclear)
		}
		c.pending = nil // the version on which it was conditional is gone: it can never be done
	}
	if c.corrupt == nil && c.state.Released == (c.to == released) {
		return asItWas, nil
	}
	return again, nil
}

// forgotten reports whether our entry may have been made and pushed out of the
// history since: everything from before it was.
func (c *change) forgotten() bool {
	if c.corrupt != nil || len(c.state.History) < maxHistory {
		return false
	}
	before, err := parse(c.gate, c.base.Text)
	if err != nil {
		return true
	}
	last := before.History[len(before.History)-1].Operation
	return !slices.ContainsFunc(c.state.History, func(t Transition) bool { return t.Operation == last })
}

// replaced takes the answer to the pending write.
func (c *change) replaced(v Value, err error) verdict {
	switch {
	case err == nil:
		c.held, c.state, c.corrupt = v, c.planned, nil
		return changed
	case errors.Is(err, ErrChanged):
		// Another writer's change, or the echo of our own: a Load decides.
		c.known = false
		return lostRace
	default:
		c.known = false
		return unclear
	}
}
