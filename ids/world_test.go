package ids

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// world is one stored mark, the nodes that reserve from it, the writes in
// flight, what operators do, and the numbers reserved so far. It is a plain
// value, so that every choice can be made from the same state.
type world struct {
	mark     Mark // no version: absent
	known    bool // the store remembers the sequence
	version  int
	nodes    [3]node
	late     [2]write // writes reported as failed that have not arrived yet
	nLate    int
	faults   int    // left to inject
	reserved uint64 // a bit for each number that a node owns

	// What operators do. Once the mark was deleted or replaced by an older
	// one, the sequence is harmed until it is raised above every number.
	harms   int  // deletions and restores left
	older   Mark // the first mark that was stored
	harmed  bool
	spread  bool  // a node that could not notice the harm has reserved since
	raises  int   // raises left
	raise   raise // the one that runs; done: none
	closing bool  // nodes may close
}

type node struct {
	claim claim
	left  int   // reservations to make
	last  Range // the last one made
	saw   int64 // the highest peak that a Load returned
	knows bool  // saw what the restore has undone
}

// The outcomes of a request.
const (
	served    = iota // applied, and its answer arrives
	refused          // not applied, reported as failed
	replyLost        // applied, reported as failed
	delayed          // reported as failed, applied later
	denied           // not applied, reported as a lost race
	garbled          // a Load that returns an invalid text
	crashed          // applied, and the node ends before the answer
	replaced         // not sent: a new node replaces this one
	outcomes
)

var errLost = errors.New("connection reset")

const (
	rangeSize = 2
	raisedTo  = 30 // above every number that is reserved before
)

// creating reports whether a request that creates the mark may still arrive.
func (w *world) creating() bool {
	for _, n := range w.nodes {
		if n.claim.known && n.claim.held.Version == "" || n.claim.pending != nil && n.claim.pending.old.Version == "" {
			return true
		}
	}
	return slices.ContainsFunc(w.late[:w.nLate], func(l write) bool { return l.old.Version == "" })
}

// load is what a store returns that holds the mark.
func (w *world) load() (Mark, error) {
	switch {
	case w.mark.Version != "":
		return w.mark, nil
	case w.known:
		return Mark{}, ErrMissing
	default:
		return Mark{}, ErrNotFound
	}
}

func (e *explorer) step(event string, w world) {
	e.steps = append(e.steps, event)
	e.explore(w)
	e.steps = e.steps[:len(e.steps)-1]
}

// key is equal for worlds that differ only in the order of their nodes. Nodes
// differ only by name, so exploring one order is enough.
func (w *world) key() key {
	parts := make([]string, 0, len(w.nodes))
	hist := w.hist()
	for _, n := range w.nodes {
		c := &n.claim
		mine := func(writer string) string { // the number of the node's write
			if number, ok := strings.CutPrefix(writer, c.owner); ok && number != "" && number[0] == '/' {
				return number
			}
			return "-"
		}
		f := make(fields, 0, 256)
		f.flags(n.knows, c.known, c.fresh, c.shared, c.remembered, c.unsure, c.owed != nil, c.pending != nil)
		f.numbers(int64(n.left), n.last.First, n.last.Last, n.saw, c.next, c.seen, c.own.end, int64(c.writes),
			c.own.serial, c.head.serial, hist.of(c.id()), c.head.end)
		f.texts(c.held.Version, c.kept, mine(w.mark.Writer), mine(w.older.Writer))
		if c.owed != nil {
			f.numbers(c.owed.First, c.owed.Last)
		}
		if c.pending != nil {
			f.texts(c.pending.old.Version)
			f.numbers(c.pending.reserves.First, c.pending.reserves.Last)
		}
		for _, l := range w.late[:w.nLate] {
			f.texts(mine(l.next.Writer), l.old.Version)
			f.numbers(l.reserves.First, l.reserves.Last)
		}
		parts = append(parts, string(f))
	}
	slices.Sort(parts)
	f := make(fields, 0, 1024)
	f.numbers(hist.cut.serial, hist.cut.number, int64(w.version), int64(w.faults), int64(w.reserved), int64(w.nLate))
	f.texts(w.mark.Text, w.mark.Peak, w.mark.Version)
	f.flags(w.mark.Known, w.known)
	f.texts(parts...)
	if w.harms+w.raises > 0 || w.harmed || !w.raise.done {
		f.numbers(int64(w.harms), int64(w.raises), w.raise.atLeast)
		f.flags(w.harmed, w.spread, w.raise.done)
		f.texts(w.older.Text)
		if w.raise.write != nil {
			f = fmt.Appendf(f, "%v", *w.raise.write)
		}
	}
	return sha256.Sum224(f)
}

// fields are the parts of a key, each with an end of its own. Package fmt takes
// several times as long, for each of a million worlds.
type fields []byte

func (f *fields) flags(all ...bool) {
	for _, v := range all {
		*f = strconv.AppendBool(*f, v)
		*f = append(*f, ' ')
	}
}

func (f *fields) numbers(all ...int64) {
	for _, v := range all {
		*f = strconv.AppendInt(*f, v, 36)
		*f = append(*f, ' ')
	}
}

func (f *fields) texts(all ...string) {
	for _, v := range all {
		f.numbers(int64(len(v)))
		*f = append(*f, v...)
	}
}

// move makes node i send its next request, with the given outcome. It returns
// false if the request cannot have that outcome.
func (w *world) move(i, outcome int) (string, bool) {
	n := &w.nodes[i]
	if outcome == replaced {
		n.claim, n.saw, n.knows = fresh(n.claim.owner+"'"), 0, false
		return fmt.Sprintf("node %d is replaced", i), true
	}
	req, err := n.claim.request(rangeSize, 1)
	if err != nil {
		n.left = 0
		return fmt.Sprintf("node %d: %v", i, err), outcome == served
	}
	var did verdict
	var r Range
	owed, saw, before := n.claim.owed, max(n.saw, n.claim.own.end), w.mark
	switch {
	case req.remember:
		var err error
		switch outcome {
		case served:
			w.known = true
		case refused:
			err = errLost
		case replyLost:
			w.known, err = true, errLost
		default:
			return "", false
		}
		did, _, _ = n.claim.stored(err)
	case req.write == nil:
		m, err := w.load()
		switch outcome {
		case served:
			if err == nil {
				n.saw = max(n.saw, peakOf(m))
			}
		case refused:
			m, err = Mark{}, errLost
		case garbled:
			m, err = Mark{Text: "12x", Version: m.Version}, nil
		default:
			return "", false // a read changes nothing, so only its answer matters
		}
		did, r, err = n.claim.loaded(m, err)
		if err != nil {
			n.claim.begin() // this reservation failed; the next caller tries again
		}
	default:
		m, err := Mark{}, errLost
		switch outcome {
		case served:
			m, err = w.replace(*req.write)
		case refused:
		case replyLost:
			w.replace(*req.write)
		case delayed:
			if w.nLate == len(w.late) {
				return "", false
			}
			w.late[w.nLate] = *req.write
			w.nLate++
		case denied:
			err = ErrChanged
		case crashed:
			w.replace(*req.write)
			n.claim, n.saw, n.knows = fresh(n.claim.owner+"'"), 0, false
			return fmt.Sprintf("node %d dies after its write", i), true
		default:
			return "", false
		}
		did, r, err = n.claim.replaced(m, err)
		if err != nil {
			panic(err) // a store that changes its versions causes no error of the sequence
		}
	}
	if owed == nil && n.claim.owed != nil {
		r = *n.claim.owed // reserved, and issued as soon as the store remembers the sequence
	}
	if owed == nil && r.Last > 0 {
		switch {
		case w.harmed && n.knows: // however far others have moved it
			return "DUPLICATE", true
		case w.harmed && !w.spread && (before.Version == "" || saw > peakOf(before)):
			return "DUPLICATE", true // this node could notice the harm
		case w.harmed:
			w.spread = true
		case !w.take(r):
			return "DUPLICATE", true
		}
		n.last = r
	}
	if did == reserved {
		if !w.known {
			return "DUPLICATE", true // after a deletion the sequence would begin again
		}
		n.left--
		n.claim.begin()
	}
	return fmt.Sprintf("node %d: outcome %d, verdict %d", i, outcome, did), true
}

// hist returns the history of the stored mark.
func (w *world) hist() history {
	h, err := parseHistory(w.mark, 0)
	if err != nil {
		panic(err)
	}
	return h
}

func peakOf(m Mark) int64 {
	next, err := parseNext(m.Text)
	if err == nil {
		next, err = parsePeak(m, next)
	}
	if err != nil {
		panic(err)
	}
	return next
}

// take records the numbers that a node reserved. It returns false if another
// node owns one of them.
func (w *world) take(r Range) bool {
	for number := r.First; number <= r.Last; number++ {
		if w.reserved&(1<<number) != 0 {
			return false
		}
		w.reserved |= 1 << number
	}
	return true
}

// foreign is a reservation by another program that knows the format and writes
// the metadata that it read.
func (w *world) foreign() bool {
	next, err := parseNext(w.mark.Text)
	if err != nil {
		panic(err)
	}
	w.version++
	w.mark.Text, w.mark.Version = formatNext(next+rangeSize), strconv.Itoa(w.version)
	if w.harmed {
		w.spread = true
		return true
	}
	return w.take(Range{First: next, Last: next + rangeSize - 1})
}

// replace is the compare-and-swap of the store.
func (w *world) replace(write write) (Mark, error) {
	if w.mark.Version != write.old.Version {
		return Mark{}, ErrChanged
	}
	w.version++
	w.mark = write.next
	w.mark.Version = strconv.Itoa(w.version)
	if w.older.Version == "" {
		w.older = w.mark
	}
	return w.mark, nil
}

func fresh(owner string) claim { return claim{owner: owner, first: 1, last: 60} }
