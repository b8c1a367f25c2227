package ids

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrExhausted says that a sequence has no number left, or not as many in a
// row as were asked for.
var ErrExhausted = errors.New("the sequence is used up")

// claim is the protocol by which one node reserves numbers. It is pure state:
// it says which request to send next and learns from the answer, so that a
// test can drive any number of nodes through every order of events.
//
// The rules that make a duplicate impossible:
//
//   - A write is conditional on the version that came with the very value it
//     is computed from, never on a version fetched later.
//   - A write whose outcome is unknown is repeated unchanged (same version,
//     same value, same writer), so it does not matter which try arrives.
//   - When the store then holds something else, the writer's name beside it
//     tells whether that was us. If it was not, the try is void for good: its
//     version is gone, and versions never come back.
type claim struct {
	owner string // unique to this claim among all nodes, for ever
	first int64  // where a new sequence begins
	last  int64  // the last number that may be reserved

	held  Mark  // the newest mark we know of, valid while known
	next  int64 // held, parsed
	floor int64 // the highest floor seen
	known bool
	fresh bool // held came from a Load in this reservation

	pending *write // a write whose outcome is not known yet
	end     int64  // one past the last number this claim has reserved; 0 before the first
	kept    string // the version our last write left behind
	shared  bool   // others had reserved between our last two writes: look before writing
	writes  uint64 // names our writes
}

// write is one conditional write and the range it reserves if it is applied.
type write struct {
	old, next Mark
	reserves  Range
}

// request is what to send to the store: a write, or a Load if there is none.
type request struct{ write *write }

// verdict is what an answer meant.
type verdict int

const (
	again    verdict = iota // send what next says now
	reserved                // the range is ours
	lostRace                // another node was faster although we had just looked: wait, then try again
	unclear                 // the store failed, the write may have happened: wait, then try again
)

// begin starts a reservation. A write left over from the last one, which ended
// without an answer, is taken up again.
func (c *claim) begin() { c.fresh = false }

// request returns what to send to reserve want numbers, of which at least need
// in a row must be left in the sequence. It fails when they are not.
func (c *claim) request(want, need int64) (request, error) {
	if c.pending != nil && c.known {
		return request{c.pending}, nil
	}
	if !c.known || c.shared && !c.fresh {
		return request{}, nil
	}
	if left := c.last - c.next + 1; c.next > c.last || left < need {
		if !c.fresh {
			return request{}, nil // others may have given numbers back since we looked
		}
		return request{}, fmt.Errorf("%w: %d asked for, %d left up to %d", ErrExhausted, need, max(left, 0), c.last)
	}
	size := min(want, c.last-c.next+1)
	c.writes++
	c.pending = &write{
		old: c.held,
		next: Mark{
			Text:   formatNext(c.next + size),
			Writer: c.name(),
			Floor:  c.held.Floor,
		},
		reserves: Range{First: c.next, Last: c.next + size - 1},
	}
	return request{c.pending}, nil
}

// loaded learns from the answer to a Load.
func (c *claim) loaded(m Mark, err error) (verdict, Range, error) {
	switch {
	case errors.Is(err, ErrNotFound):
		return c.absent()
	case err != nil:
		return unclear, Range{}, nil
	}
	next, err := parseNext(m.Text)
	if err != nil {
		return again, Range{}, err
	}
	floor, err := parseFloor(m.Floor)
	if err != nil {
		return again, Range{}, err
	}
	if p := c.pending; p != nil && m.Writer == p.next.Writer && next > p.reserves.Last {
		// Ours arrived. It need not be the last: some programs carry our name
		// on when they move the number, so what was read counts from here on.
		return c.applied(m, next)
	}
	if next < c.end {
		return again, Range{}, fmt.Errorf("%w: it went back to %d, and this node had reserved up to %d", ErrCorrupt, next, c.end-1)
	}
	if next < floor {
		return again, Range{}, fmt.Errorf("%w: it went back to %d after it had been raised to %d", ErrCorrupt, next, floor)
	}
	if p := c.pending; p != nil && m.Version != p.old.Version {
		c.pending = nil // the version it was conditional on is gone: it can never be applied
	}
	c.shared = c.kept != "" && m.Version != c.kept
	c.held, c.next, c.floor, c.known, c.fresh = m, next, max(c.floor, floor), true, true
	return again, Range{}, nil
}

// absent is a Load that found nothing: a new sequence, unless we know better.
func (c *claim) absent() (verdict, Range, error) {
	if c.end > 0 {
		return again, Range{}, fmt.Errorf("%w: it has vanished, and this node had reserved up to %d", ErrCorrupt, c.end-1)
	}
	if p := c.pending; p != nil && p.old.Version != "" {
		return again, Range{}, fmt.Errorf("%w: it has vanished while numbers from %d were being reserved", ErrCorrupt, p.reserves.First)
	}
	c.held, c.next, c.known, c.fresh = Mark{}, c.first, true, true
	return again, Range{}, nil
}

// replaced learns from the answer to the pending write.
func (c *claim) replaced(m Mark, err error) (verdict, Range, error) {
	switch {
	case err == nil:
		return c.applied(m, c.pending.reserves.Last+1)
	case errors.Is(err, ErrChanged):
		// Another node's write, or the echo of our own: only a Load can tell.
		raced := c.fresh
		c.known, c.fresh = false, false
		if raced {
			return lostRace, Range{}, nil
		}
		return again, Range{}, nil
	default:
		return unclear, Range{}, nil
	}
}

// applied takes the pending write's range, with m and its number next as what
// the store holds now.
func (c *claim) applied(m Mark, next int64) (verdict, Range, error) {
	r := c.pending.reserves
	if m.Version == c.held.Version && c.held.Version != "" {
		// A store that does not change the version with the value cannot
		// tell two writers apart.
		return again, Range{}, fmt.Errorf("%w: the store kept version %s over a write", ErrCorrupt, quote(m.Version))
	}
	if !c.fresh {
		c.shared = false // the version kept from last time was still good: we are alone
	}
	c.pending = nil
	c.held, c.next, c.known, c.fresh = m, next, true, false
	c.end, c.kept = r.Last+1, m.Version
	return reserved, r, nil
}

// giveBack returns the write that gives up what was reserved last, from first
// on. It is for the end of a claim's life.
func (c *claim) giveBack(first int64) write {
	c.writes++
	return write{old: c.held, next: Mark{Text: formatNext(first), Writer: c.name(), Floor: c.held.Floor}}
}

// name names the write that is being made.
func (c *claim) name() string { return c.owner + "/" + strconv.FormatUint(c.writes, 36) }
