package ids

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrExhausted reports that a sequence has fewer consecutive numbers left than
// requested.
var ErrExhausted = errors.New("the sequence is used up")

// exhausted is the error of a request for more consecutive numbers than are
// left.
type exhausted struct{ requested, left, last int64 }

func (e *exhausted) Error() string {
	return fmt.Sprintf("%v: %d requested, %d left up to %d", ErrExhausted, e.requested, e.left, e.last)
}

func (e *exhausted) Unwrap() error { return ErrExhausted }

// claim is the protocol by which one node reserves numbers. It does no I/O: it
// returns the request to send next and takes the answer. A test can therefore
// drive any number of nodes through every order of events.
//
// The rules that make a duplicate impossible:
//
//   - A write is conditional on the version that was read together with the
//     value that it is computed from, never on a version read later.
//   - A write whose outcome is unknown is repeated unchanged (same version,
//     same value, same writer), so it does not matter which try arrives.
//   - If the store then holds another mark, the writer's name in it shows
//     whether the write was ours. If not, no try of our write can be applied
//     any more: the version it depends on was replaced, and versions are never
//     reused.
//   - The first range is issued only after the store remembers the sequence, so
//     that a deleted mark is not mistaken for a new sequence.
//   - The peak of a mark never goes down, although its number does when a node
//     returns numbers. A mark with a lower peak than this node has seen was
//     restored from an older copy.
type claim struct {
	owner string // unique among the claims of all nodes, past and future
	first int64  // the first number of a new sequence
	last  int64  // the last number that may be reserved

	held  Mark  // the newest known mark; valid if known is set
	next  int64 // the number in held
	seen  int64 // the highest peak seen; 0 before the first mark
	known bool
	fresh bool // held was loaded during this reservation

	pending    *write // a write whose outcome is not known yet
	remembered bool   // the store remembers the sequence
	owed       *Range // reserved; not issued before the store remembers the sequence
	end        int64  // one past the last number this claim has reserved; 0 before the first
	kept       string // the version that our last write created
	shared     bool   // another node reserved between our last two writes: read before writing
	writes     uint64 // number of writes; part of their names
}

// write is one conditional write and the range it reserves if it is applied.
type write struct {
	old, next Mark
	reserves  Range
}

// request is what to send to the store: a write, or Remember, or a Load if it
// is neither.
type request struct {
	write    *write
	remember bool
}

// verdict is the meaning of an answer.
type verdict int

const (
	again    verdict = iota // send the next request at once
	reserved                // the range is ours
	lostRace                // another node was faster although we had just read: wait, then try again
	unclear                 // the store failed and may have applied the write: wait, then try again
)

// begin starts a reservation. If the last one ended with a write of unknown
// outcome, this one continues with that write.
func (c *claim) begin() { c.fresh = false }

// request returns the request that reserves want numbers. It fails if fewer
// than need consecutive numbers are left in the sequence.
func (c *claim) request(want, need int64) (request, error) {
	if c.owed != nil {
		return request{remember: true}, nil
	}
	if c.pending != nil && c.known {
		return request{write: c.pending}, nil
	}
	if !c.known || c.shared && !c.fresh {
		return request{}, nil
	}
	if left := c.last - c.next + 1; c.next > c.last || left < need {
		if !c.fresh {
			return request{}, nil // another node may have returned numbers since we read
		}
		return request{}, &exhausted{need, max(left, 0), c.last}
	}
	size := min(want, c.last-c.next+1)
	c.pending = c.write(c.next + size)
	c.pending.reserves = Range{First: c.next, Last: c.next + size - 1}
	return request{write: c.pending}, nil
}

// write returns a write of the number next in the place of held.
func (c *claim) write(next int64) *write {
	c.writes++
	w := &write{old: c.held, next: Mark{Text: formatNext(next), Writer: c.name(), Known: c.remembered}}
	if c.seen > next {
		w.next.Peak = formatNext(c.seen)
	}
	return w
}

// loaded takes the answer to a Load.
func (c *claim) loaded(m Mark, err error) (verdict, Range, error) {
	switch {
	case errors.Is(err, ErrMissing), errors.Is(err, ErrNotFound) && c.seen > 0:
		c.known = false
		return again, Range{}, ErrMissing
	case errors.Is(err, ErrNotFound):
		c.held, c.next, c.known, c.fresh = Mark{}, c.first, true, true
		return again, Range{}, nil
	case err != nil:
		return unclear, Range{}, nil
	}
	next, err := parseNext(m.Text)
	if err != nil {
		return again, Range{}, err
	}
	peak, err := parsePeak(m, next)
	if err != nil {
		return again, Range{}, err
	}
	if p := c.pending; p != nil && m.Writer == p.next.Writer && next > p.reserves.Last {
		// Our write was applied. Another write may have followed it: some
		// programs keep our name when they move the number. So continue from
		// the number that was read.
		return c.applied(m, next, peak)
	}
	if next < c.end {
		return again, Range{}, fmt.Errorf("%w: it went down to %d after this node reserved up to %d", ErrCorrupt, next, c.end-1)
	}
	if peak < c.seen {
		return again, Range{}, fmt.Errorf("%w: it went down to %d from %d", ErrCorrupt, next, c.seen)
	}
	if p := c.pending; p != nil && m.Version != p.old.Version {
		c.pending = nil // the version it depends on was replaced: it can never be applied
	}
	c.shared = c.kept != "" && m.Version != c.kept
	c.held, c.next, c.seen, c.known, c.fresh = m, next, peak, true, true
	c.remembered = c.remembered || m.Known
	return again, Range{}, nil
}

// replaced takes the answer to the pending write.
func (c *claim) replaced(m Mark, err error) (verdict, Range, error) {
	switch {
	case err == nil:
		next := c.pending.reserves.Last + 1
		return c.applied(m, next, next)
	case errors.Is(err, ErrChanged):
		// Another node was faster, or an earlier try of our own write arrived.
		// Only a Load can distinguish them.
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

// applied takes the pending write's range. The store now holds m with the
// number next.
func (c *claim) applied(m Mark, next, peak int64) (verdict, Range, error) {
	r := c.pending.reserves
	if m.Version == c.held.Version && c.held.Version != "" {
		// A store that does not change the version with each write cannot
		// detect a second writer.
		return again, Range{}, fmt.Errorf("%w: the store did not change version %s with a write", ErrCorrupt, quote(m.Version))
	}
	if !c.fresh {
		c.shared = false // the version of our last write was still current: no other node reserves
	}
	c.pending = nil
	c.held, c.next, c.known, c.fresh = m, next, true, false
	c.end, c.seen, c.kept = r.Last+1, max(c.seen, peak), m.Version
	if !c.remembered {
		c.owed = &r
		return again, Range{}, nil
	}
	return reserved, r, nil
}

// stored takes the answer to Remember.
func (c *claim) stored(err error) (verdict, Range, error) {
	if err != nil {
		return unclear, Range{}, nil
	}
	r := *c.owed
	c.owed, c.remembered = nil, true
	return reserved, r, nil
}

// giveBack returns the write that returns the numbers from first to the end of
// the last reservation, or nil if there are none. It is conditional on our own
// last write: the numbers before another node's are not the last. The claim
// must not be used afterwards.
func (c *claim) giveBack(first int64) *write {
	if !c.known || first >= c.next {
		return nil
	}
	return c.write(first)
}

// name returns the name of the current write, unique among all nodes.
func (c *claim) name() string { return c.owner + "/" + strconv.FormatUint(c.writes, 36) }
