package gate

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// change is the protocol by which an administrator changes a gate. It is pure
// state: it says which request to send next and learns from the answer, so
// that a test can drive several of them through every order of events.
//
// The rules that make one winner per generation:
//
//   - A write is conditional on the version that came with the very document
//     it is computed from.
//   - After a write whose outcome is unknown the store is read: when the
//     history names our operation, it was done; when the version is the old
//     one, the same write is sent again, and it does not matter which of them
//     arrives; when it is another, ours is void for good, since versions never
//     come back.
type change struct {
	gate    string
	to      string // released or closed
	by      string
	reason  string
	op      string // unique to this change among all, for ever
	at      time.Time
	force   bool
	atLeast int64 // the highest generation that this process has seen

	held    Flag  // what the store holds, valid while known
	state   State // held, parsed
	corrupt error // why held cannot be used, nil if it can
	known   bool

	pending *Flag      // a write whose outcome is not known yet
	planned State      // what pending makes of the gate
	base    Flag       // what pending is to replace
	made    Transition // the entry that pending adds
}

// verdict is what an answer meant to a change.
type verdict int

const (
	again    verdict = iota // send what request says now
	lostRace                // somebody else was faster although we had just looked: wait, then try again
	unclear                 // the store failed, a write may have happened: wait, then try again
	changed                 // done: the change is made says what
	asItWas                 // done: there was nothing to change
)

// request returns what to put in the place of old; without ok the gate is to
// be loaded. It fails when the gate cannot be changed.
func (c *change) request() (old, new Flag, ok bool, err error) {
	if !c.known {
		return Flag{}, Flag{}, false, nil
	}
	if c.pending == nil {
		if err := c.decide(); err != nil {
			return Flag{}, Flag{}, false, err
		}
	}
	return c.base, *c.pending, true, nil
}

// decide computes the write from what is held.
func (c *change) decide() error {
	from, replaced := c.state, ""
	switch {
	case c.corrupt == nil:
	case !c.force:
		return c.corrupt
	case newer(c.held.Text):
		return fmt.Errorf("%w; a newer program has written it, so not even force replaces it", c.corrupt)
	default:
		from, replaced = salvage(c.gate, c.held.Text), quote(c.held.Text)
		from.Generation = max(from.Generation, c.atLeast)
	}
	generation := from.Generation
	if c.to == released {
		generation++
	}
	if generation > MaxGeneration {
		return fmt.Errorf("%w: it has been released as often as can be counted", ErrCorrupt)
	}
	c.made = Transition{
		Change: c.to, Generation: generation, At: c.at, By: c.by, Reason: c.reason, Operation: c.op, Replaced: replaced,
	}
	document := next(from, c.made)
	c.base, c.pending, c.planned = c.held, &Flag{Text: document.encode()}, document.state(c.gate)
	return nil
}

// loaded learns from the answer to a Load.
func (c *change) loaded(f Flag, err error) (verdict, error) {
	switch {
	case errors.Is(err, ErrNotFound):
		c.held, c.state, c.corrupt = Flag{}, State{Gate: c.gate}, nil
	case err != nil:
		return unclear, nil
	default:
		c.held = f
		c.state, c.corrupt = parse(c.gate, f.Text)
	}
	c.known = true
	if c.pending != nil {
		if i := slices.IndexFunc(c.state.History, func(t Transition) bool { return t.Operation == c.op }); i >= 0 {
			c.made = c.state.History[i]
			return changed, nil
		}
		if c.held.Version == c.base.Version {
			return again, nil // not done yet, and perhaps on its way
		}
		switch {
		case c.corrupt != nil && !c.force:
			return again, fmt.Errorf("%w: %w", ErrUnclear, c.corrupt)
		case c.forgotten():
			return again, fmt.Errorf("%w: so much has happened since that its history no longer tells", ErrUnclear)
		}
		c.pending = nil // the version it was conditional on is gone: it can never be done
	}
	if c.corrupt == nil && c.state.Released == (c.to == released) {
		return asItWas, nil
	}
	return again, nil
}

// forgotten says that our entry, had it been made, could have left the history
// since, because everything from before it has.
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

// replaced learns from the answer to the pending write.
func (c *change) replaced(f Flag, err error) verdict {
	switch {
	case err == nil:
		c.held, c.state, c.corrupt = f, c.planned, nil
		return changed
	case errors.Is(err, ErrChanged):
		// Somebody else's write, or the echo of our own: only a Load can tell.
		c.known = false
		return lostRace
	default:
		c.known = false
		return unclear
	}
}

// signal returns what is to be told when the change is done.
func (c *change) signal(did verdict) (s Signal, ok bool) {
	s = Signal{Gate: c.gate, Released: c.to == released, Life: c.state.life}
	switch {
	case did == changed && c.made.Generation == c.state.base:
		return Signal{Gate: c.gate}, true // it proves no release
	case did == changed:
		s.Generation, s.At, s.By, s.Reason = c.made.Generation, c.made.At, c.made.By, c.made.Reason
	case c.to == released:
		// Whoever released it may have been killed before telling.
		s.Generation, s.At, s.By, s.Reason = c.state.Generation, c.state.ChangedAt, c.state.By, c.state.Reason
	default:
		return Signal{}, false
	}
	if !s.whole() { // a person has written more into the document than a signal carries
		s = Signal{Gate: c.gate}
	}
	return s, true
}
