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
//   - A mark has the history of its writes. One without the last write of this
//     node, or without the newest one that it has seen, was restored from an
//     older copy, although others have moved it on since. If more writers wrote
//     than the history holds, a copy that was moved on since our last write shows
//     in it too, or what the processes of the app have reported decides.
type claim struct {
	owner string // unique among the claims of all nodes, past and future
	asks  bool   // reports of other processes can be read
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
	hist       history
	own        place  // the last write of this claim; its end is 0 before the first
	head       place  // the newest write that this claim has seen
	doubt      bool   // the reports have to be read after a load
	asked      bool   // they were read, or could not be, during this reservation
	sure       string // the version that stood every comparison
	unsure     bool   // held does not show whether our last write is part of its history
	again      bool   // held was loaded again after the reports contradicted it
	reports    []place
	kept       string // the version that our last write created
	shared     bool   // another node reserved between our last two writes: read before writing
	writes     uint64 // number of writes; part of their names
}

// write is one conditional write and the range it reserves if it is applied.
type write struct {
	old, next Mark
	reserves  Range
	returns   Range // that the write gives back, instead of reserving
	serial    int64
	end       int64   // one past the highest number that this node keeps
	hist      history // of next
}

// from returns the lower one of the numbers before and after the write.
func (w *write) from() int64 { return max(w.reserves.First, w.returns.First) }

// isReturn reports whether the write gives numbers back.
func (w *write) isReturn() bool { return w.returns.Last > 0 }

// request is what to send to the store: a write, Remember, or a Load if it is
// none of these; or a read of the reports of other processes.
type request struct {
	write    *write
	remember bool
	reports  bool
}

// verdict is the meaning of an answer.
type verdict int

const (
	again    verdict = iota // send the next request at once
	reserved                // the range is ours
	lostRace                // another node was faster although we had just read: wait, then try again
	unclear                 // the store failed and may have applied the write: wait, then try again
	returned                // the numbers went back
)

// begin starts a reservation. If the last one ended with a write of unknown
// outcome, this one continues with that write.
func (c *claim) begin() { c.fresh, c.asked, c.again = false, false, false }

// suspect makes the claim read the mark before the next write, and what others
// have reported if another writer has changed it: it was not looked at for so
// long that a copy that is older than all reports can have been restored, and
// newer than what this claim has seen.
func (c *claim) suspect() {
	if c.asks {
		c.doubt = true
		c.known = c.known && c.pending != nil
	}
}

// id returns the writer's name in histories.
func (c *claim) id() string { return c.owner[:min(len(c.owner), idLen)] }

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
	if c.asks && c.doubt && !c.asked {
		return request{reports: true}, nil
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
	c.pending.end = c.next + size
	return request{write: c.pending}, nil
}

// write returns a write of the number next in the place of held.
func (c *claim) write(next int64) *write {
	c.writes++
	w := &write{old: c.held, next: Mark{Text: formatNext(next), Writer: c.name(), Known: c.remembered}, serial: c.hist.serial() + 1}
	if w.hist = c.hist; c.held.Copied {
		w.hist = w.hist.forked(c.id())
	}
	w.hist = w.hist.add(c.id(), w.serial)
	w.hist.describe(&w.next)
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
		c.hist = history{cut: cut{number: c.first}}
		return again, Range{}, c.judge()
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
	hist, err := parseHistory(m, next)
	if err != nil {
		return again, Range{}, err
	}
	if p := c.pending; p != nil && next >= p.end &&
		(m.Writer == p.next.Writer || hist.of(c.id()) == p.serial && (p.isReturn() || p.serial > hist.cut.serial)) {
		// Our write was applied. Another write may have followed it: of another
		// node, or of a program that keeps our name when it moves the number.
		// So continue from the number that was read. If it was a raise, what our
		// write reserved is given up: the raise may repair a restore before it.
		return c.applied(m, hist, next, peak)
	}
	if next < c.own.end {
		return again, Range{}, fmt.Errorf("%w: it went down to %d after this node reserved up to %d", ErrCorrupt, next, c.own.end-1)
	}
	if peak < c.seen {
		return again, Range{}, fmt.Errorf("%w: it went down to %d from %d", ErrCorrupt, next, c.seen)
	}
	own, head := c.standing(hist, c.own), c.standing(hist, c.head)
	if own == undone || head == undone {
		return again, Range{}, fmt.Errorf("%w: %d follows an older copy, without what this node has reserved or seen (up to %d)", ErrCorrupt, next, c.seen-1)
	}
	c.unsure = own == unknown || head == unknown
	c.doubt = (c.doubt || c.asks && m.Copied) && (m.Version != c.sure || c.reports != nil) || c.unsure
	if p := c.pending; p != nil && m.Version != p.old.Version {
		c.pending = nil // the version it depends on was replaced: it can never be applied
	}
	c.shared = c.kept != "" && m.Version != c.kept
	c.held, c.hist, c.next, c.seen, c.known, c.fresh = m, hist, next, peak, true, true
	c.remembered = c.remembered || m.Known
	return again, Range{}, c.judge()
}

// standing returns whether a write of this node, or one that it has seen, is
// part of a history that it loaded.
func (c *claim) standing(h history, p place) standing {
	s := h.standing(p)
	if s == unknown && h.undoes(p, c.hist.forks) {
		return undone
	}
	return s
}

// reported takes what other processes have reported, or why it cannot be read:
// then the reservation goes on, and the next one reads it.
func (c *claim) reported(all []place, err error) error {
	c.asked = true
	if err != nil {
		return nil
	}
	c.reports, c.doubt = all, false
	return c.judge()
}

// judge compares the mark that is held with the reports of other processes.
// These may have written after it was loaded, so it is loaded again before it
// counts as corrupt.
func (c *claim) judge() error {
	reports := c.reports
	c.reports = nil
	if highest, ok := c.contradiction(reports); ok {
		c.doubt = true // until a mark stands the comparison
		if !c.again {
			c.again, c.known, c.reports = true, false, reports
			return nil
		}
		c.known = false
		return fmt.Errorf("%w: at %d it lacks what another instance has reserved (up to %d)", ErrCorrupt, c.next, highest)
	}
	if reports != nil {
		c.doubt = false
	}
	if newest := c.hist.last(c.next); newest.serial > 0 {
		c.head = newest
	}
	if !c.doubt {
		c.sure = c.held.Version
	}
	return nil
}

// contradiction reports whether other processes have reported writes that are
// not part of the history of the mark, and the highest number that they and this
// node have reserved. Where the history does not reach back to a write, the
// order of serials decides.
func (c *claim) contradiction(reports []place) (highest int64, found bool) {
	if len(reports) == 0 {
		return 0, false
	}
	var all []place
	for i, p := range append([]place{c.head, c.own}, reports...) {
		if p.serial < max(c.hist.cut.serial, 1) || p.end <= c.hist.cut.number || p.writer == c.id() && p.serial != c.own.serial {
			continue
		}
		if i > 0 && c.hist.of(p.writer) == p.serial {
			p.used = max(p.used, p.end) // it has not written since, so it has returned nothing
		}
		highest, found = max(highest, p.end-1), found || c.hist.standing(p) == undone
		all = append(all, p)
	}
	return highest, found || c.hist.contradicted(c.next, all)
}

// replaced takes the answer to the pending write.
func (c *claim) replaced(m Mark, err error) (verdict, Range, error) {
	switch {
	case err == nil:
		p := c.pending
		next := p.reserves.Last + 1
		if p.isReturn() {
			next = p.returns.First
		}
		return c.applied(m, p.hist, next, next)
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
func (c *claim) applied(m Mark, hist history, next, peak int64) (verdict, Range, error) {
	p := c.pending
	r := p.reserves
	if m.Version == c.held.Version && c.held.Version != "" {
		// A store that does not change the version with each write cannot
		// detect a second writer.
		return again, Range{}, fmt.Errorf("%w: the store did not change version %s with a write", ErrCorrupt, quote(m.Version))
	}
	if !c.fresh {
		c.shared = false // the version of our last write was still current: no other node reserves
	}
	c.pending = nil
	c.held, c.hist, c.next, c.known, c.fresh, c.unsure = m, hist, next, true, false, false
	c.own = place{writer: c.id(), serial: p.serial, from: p.from(), end: p.end, used: p.end}
	c.head = hist.last(next)
	c.seen, c.kept, c.sure, c.doubt = max(c.seen, peak), m.Version, m.Version, false
	if p.isReturn() {
		return returned, p.returns, nil
	}
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

// giveBack returns the write that returns a range which ends directly before
// the stored number, or nil if it does not. keep is one past the highest number
// that the node keeps. The numbers must not be issued, unless it turns out that
// the write was not applied.
func (c *claim) giveBack(r Range, keep int64) *write {
	if !c.known || c.pending != nil || c.owed != nil || r.Count() < 1 || r.Last+1 != c.next {
		return nil
	}
	c.pending = c.write(r.First)
	c.pending.returns, c.pending.end = r, keep
	return c.pending
}

// name returns the name of the current write, unique among all nodes.
func (c *claim) name() string { return c.owner + "/" + strconv.FormatUint(c.writes, 36) }
