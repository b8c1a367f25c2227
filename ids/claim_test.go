package ids

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// world is one stored mark, the nodes that reserve from it, writes still on the
// network, and the numbers reserved so far. It is a plain value, so that every
// choice can be made from the same state.
type world struct {
	mark     Mark // no version: absent
	version  int
	nodes    [3]node
	late     [2]write // writes reported as failed that have not arrived yet
	nLate    int
	faults   int    // how many more may happen
	reserved uint64 // a bit for each number that a node owns
}

type node struct {
	claim claim
	left  int // reservations to make
}

// What can become of a request.
const (
	served    = iota // applied, and its answer arrives
	refused          // not applied, reported as failed
	replyLost        // applied, reported as failed
	delayed          // reported as failed, applied later
	denied           // not applied, reported as a lost race
	garbled          // a Load that returns an invalid text
	crashed          // applied, and the node ends before the answer
	replaced         // a new node takes the place of this one before it sends
	outcomes
)

var errLost = errors.New("connection reset")

const rangeSize = 2

// explorer makes every choice from every state, once. It keeps the history of
// choices for the message.
type explorer struct {
	seen  map[[sha256.Size224]byte]bool
	steps []string
	fail  func(history string)
	buf   []byte
}

func (e *explorer) explore(w world) {
	if key := e.keyOf(&w); e.seen[key] {
		return
	} else {
		e.seen[key] = true
	}
	for i := range w.nLate {
		v := w
		late := v.late[i]
		v.nLate--
		v.late[i] = v.late[v.nLate]
		v.replace(late)
		e.step(fmt.Sprintf("late write %s arrives", late.next.Writer), v)
	}
	if w.faults > 0 && w.mark.Version != "" {
		v := w
		v.faults--
		if !v.foreign() {
			e.fail(strings.Join(append(e.steps, "another program reserves numbers that are taken"), "\n"))
			return
		}
		e.step("another program reserves, and keeps the writer's name", v)
	}
	for i := range w.nodes {
		if w.nodes[i].left == 0 {
			continue
		}
		for outcome := range outcomes {
			v := w
			if outcome != served {
				if v.faults == 0 {
					break
				}
				v.faults--
			}
			said, ok := v.move(i, outcome)
			if !ok {
				continue
			}
			if said == "DUPLICATE" {
				e.fail(strings.Join(append(e.steps, fmt.Sprintf("node %d reserves numbers that are taken", i)), "\n"))
				return
			}
			e.step(said, v)
		}
	}
}

func (e *explorer) step(said string, w world) {
	e.steps = append(e.steps, said)
	e.explore(w)
	e.steps = e.steps[:len(e.steps)-1]
}

// keyOf describes a world regardless of the order of its nodes: they differ by
// name only, so one of the orders that differ only in names is enough.
func (e *explorer) keyOf(w *world) [sha256.Size224]byte {
	parts := make([]string, 0, len(w.nodes))
	for _, n := range w.nodes {
		b := e.buf[:0]
		b = appendWorld(b, int64(n.left), n.claim.next, n.claim.floor, n.claim.end, int64(n.claim.writes))
		b = fmt.Appendf(b, "%t%t%t", n.claim.known, n.claim.fresh, n.claim.shared)
		b = append(append(append(b, n.claim.held.Version...), ' '), n.claim.kept...)
		b = appendMine(b, w.mark.Writer, n.claim.owner)
		if p := n.claim.pending; p != nil {
			b = appendWrite(b, *p)
		}
		for _, l := range w.late[:w.nLate] {
			b = appendMine(b, l.next.Writer, n.claim.owner)
			b = appendWrite(b, l)
		}
		parts = append(parts, string(b))
		e.buf = b
	}
	slices.Sort(parts)
	b := appendWorld(e.buf[:0], int64(w.version), int64(w.faults), int64(w.reserved), int64(w.nLate))
	b = append(append(append(b, w.mark.Text...), ' '), w.mark.Version...)
	for _, p := range parts {
		b = append(append(b, '|'), p...)
	}
	e.buf = b
	return sha256.Sum224(b)
}

func appendWorld(b []byte, values ...int64) []byte {
	for _, v := range values {
		b = append(strconv.AppendInt(b, v, 36), ' ')
	}
	return b
}

// appendMine reports whether a writer is this owner, and which of its writes.
func appendMine(b []byte, writer, owner string) []byte {
	if number, mine := strings.CutPrefix(writer, owner+"/"); mine {
		b = append(append(b, '*'), number...)
	}
	return append(b, ' ')
}

func appendWrite(b []byte, w write) []byte {
	b = append(append(b, w.old.Version...), ' ')
	return appendWorld(b, w.reserves.First, w.reserves.Last)
}

// move lets node i make its next request, with the given outcome. It reports
// false when that outcome cannot happen to it.
func (w *world) move(i, outcome int) (string, bool) {
	n := &w.nodes[i]
	if outcome == replaced {
		n.claim = fresh(n.claim.owner + "'")
		return fmt.Sprintf("node %d is replaced", i), true
	}
	req, err := n.claim.request(rangeSize, 1)
	if err != nil {
		n.left = 0
		return fmt.Sprintf("node %d: %v", i, err), outcome == served
	}
	var did verdict
	var r Range
	if req.write == nil {
		m, err := w.mark, error(nil)
		if m.Version == "" {
			m, err = Mark{}, ErrNotFound
		}
		switch outcome {
		case served:
		case refused:
			m, err = Mark{}, errLost
		case garbled:
			m, err = Mark{Text: "12x", Version: m.Version}, nil
		default:
			return "", false // a read changes nothing: only its answer matters
		}
		did, r, err = n.claim.loaded(m, err)
		if err != nil {
			n.claim.begin() // this reservation has failed; the next caller tries again
		}
	} else {
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
			n.claim = fresh(n.claim.owner + "'")
			return fmt.Sprintf("node %d dies after its write", i), true
		default:
			return "", false
		}
		did, r, err = n.claim.replaced(m, err)
		if err != nil {
			panic(err) // no answer of a store that changes its versions is an error of the sequence
		}
	}
	if did == reserved {
		if !w.take(r) {
			return "DUPLICATE", true
		}
		n.left--
		n.claim.begin()
	}
	return fmt.Sprintf("node %d: outcome %d, verdict %d", i, outcome, did), true
}

// take gives numbers to a node that reserved them, unless they are taken.
func (w *world) take(r Range) bool {
	for number := r.First; number <= r.Last; number++ {
		if w.reserved&(1<<number) != 0 {
			return false
		}
		w.reserved |= 1 << number
	}
	return true
}

// foreign is a reservation by another program that knows the format, and that
// writes back the metadata it has read.
func (w *world) foreign() bool {
	next, err := parseNext(w.mark.Text)
	if err != nil {
		panic(err)
	}
	w.version++
	w.mark.Text, w.mark.Version = formatNext(next+rangeSize), strconv.Itoa(w.version)
	return w.take(Range{First: next, Last: next + rangeSize - 1})
}

// replace is the store: it compares and swaps.
func (w *world) replace(write write) (Mark, error) {
	if w.mark.Version != write.old.Version {
		return Mark{}, ErrChanged
	}
	w.version++
	w.mark = write.next
	w.mark.Version = strconv.Itoa(w.version)
	return w.mark, nil
}

func fresh(owner string) claim { return claim{owner: owner, first: 1, last: 60} }

// TestClaimEveryOrder drives three nodes through two reservations each, in
// every order of their requests, with every kind of fault at every place.
func TestClaimEveryOrder(t *testing.T) {
	type size struct{ nodes, reservations, faults int }
	sizes := []size{{3, 2, 0}, {3, 1, 1}, {2, 2, 1}, {1, 2, 2}}
	if os.Getenv("KENNEL_PROVE") != "" { // storetest imports this package
		sizes = []size{{3, 2, 0}, {3, 2, 1}, {3, 1, 2}, {2, 2, 2}}
	}
	worlds, duplicates := 0, 0
	for _, start := range []Mark{{}, {Text: "1", Version: "0"}} { // a new and an existing sequence
		for _, size := range sizes {
			t.Run(fmt.Sprintf("%q/%+v", start.Text, size), func(t *testing.T) {
				w := world{mark: start, faults: size.faults}
				for i := range size.nodes {
					w.nodes[i] = node{claim: fresh(string(rune('a' + i))), left: size.reservations}
				}
				e := explorer{seen: make(map[[sha256.Size224]byte]bool), fail: func(history string) {
					duplicates++
					t.Fatal("a duplicate, after:\n" + history)
				}}
				e.explore(w)
				worlds += len(e.seen)
				if len(e.seen) < 100 {
					t.Errorf("saw %d states: too few to have been everywhere", len(e.seen))
				}
			})
		}
	}
	t.Logf("figure: numbers reserved twice in every order of 3 nodes (%d states) | %d | 0", worlds, duplicates)
}

// A node that reserves alone gets every number of the sequence, and reads the
// store again before it believes that none is left.
func TestClaimReservesEverything(t *testing.T) {
	w := world{}
	w.nodes[0] = node{claim: fresh("a"), left: 30}
	for w.nodes[0].left > 0 {
		w.move(0, served)
	}
	if got := bits.OnesCount64(w.reserved); got != 60 {
		t.Errorf("reserved %d numbers, want 60", got)
	}
	for _, want := range []error{nil, ErrExhausted} {
		if _, err := w.nodes[0].claim.request(1, 1); !errors.Is(err, want) {
			t.Errorf("request from a used-up sequence: %v, want %v", err, want)
		}
		w.nodes[0].left = 1
		w.move(0, served) // reads
	}
}
