package ids

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// world is one stored mark, the nodes that reserve from it, the writes in
// flight and the numbers reserved so far. It is a plain value, so that every
// choice can be made from the same state.
type world struct {
	mark     Mark // no version: absent
	version  int
	nodes    [3]node
	late     [2]write // writes reported as failed that have not arrived yet
	nLate    int
	faults   int    // left to inject
	reserved uint64 // a bit for each number that a node owns
}

type node struct {
	claim claim
	left  int // reservations to make
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

const rangeSize = 2

// explorer makes every choice from every state once. It keeps the choices for
// the failure message.
type explorer struct {
	seen  map[key]bool
	steps []string
	fail  func(history string)
}

type key = [sha256.Size224]byte

func (e *explorer) explore(w world) {
	key := w.key()
	if e.seen[key] {
		return
	}
	e.seen[key] = true
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
			event, ok := v.move(i, outcome)
			if !ok {
				continue
			}
			if event == "DUPLICATE" {
				e.fail(strings.Join(append(e.steps, fmt.Sprintf("node %d reserves numbers that are taken", i)), "\n"))
				return
			}
			e.step(event, v)
		}
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
	for _, n := range w.nodes {
		c := n.claim
		mine := func(writer string) string { // the number of the node's write
			if number, ok := strings.CutPrefix(writer, c.owner+"/"); ok {
				return number
			}
			return "-"
		}
		b := fmt.Appendf(nil, "%d %d %d %d %d %t %t %t %s %s %s", n.left, c.next, c.floor, c.end, c.writes,
			c.known, c.fresh, c.shared, c.held.Version, c.kept, mine(w.mark.Writer))
		if c.pending != nil {
			b = fmt.Appendf(b, " %s %v", c.pending.old.Version, c.pending.reserves)
		}
		for _, l := range w.late[:w.nLate] {
			b = fmt.Appendf(b, " %s %s %v", mine(l.next.Writer), l.old.Version, l.reserves)
		}
		parts = append(parts, string(b))
	}
	slices.Sort(parts)
	return sha256.Sum224(fmt.Appendf(nil, "%d %d %d %d %s %s %q", w.version, w.faults, w.reserved, w.nLate, w.mark.Text, w.mark.Version, parts))
}

// move makes node i send its next request, with the given outcome. It returns
// false if the request cannot have that outcome.
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
			return "", false // a read changes nothing, so only its answer matters
		}
		did, r, err = n.claim.loaded(m, err)
		if err != nil {
			n.claim.begin() // this reservation failed; the next caller tries again
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
			panic(err) // a store that changes its versions causes no error of the sequence
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
	return w.mark, nil
}

func fresh(owner string) claim { return claim{owner: owner, first: 1, last: 60} }

// TestClaimEveryOrder drives three nodes through two reservations each, in
// every order of their requests, with every kind of fault at every request.
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
				e := explorer{seen: make(map[key]bool), fail: func(history string) {
					duplicates++
					t.Fatal("a duplicate, after:\n" + history)
				}}
				e.explore(w)
				worlds += len(e.seen)
				if len(e.seen) < 100 {
					t.Errorf("explored %d states, want all", len(e.seen))
				}
			})
		}
	}
	t.Logf("figure: numbers reserved twice, in every order of the requests and faults of 3 nodes (%d states) | %d | 0", worlds, duplicates)
}

// A node that reserved the last number reads the store again before it reports
// ErrExhausted: another node may have returned numbers.
func TestClaimReadsAgainAtTheEnd(t *testing.T) {
	w := world{mark: Mark{Text: "59", Version: "0"}}
	w.nodes[0] = node{claim: fresh("a"), left: 1}
	w.move(0, served) // reads
	w.move(0, served) // reserves 59 and 60
	for _, want := range []error{nil, ErrExhausted} {
		if _, err := w.nodes[0].claim.request(1, 1); !errors.Is(err, want) {
			t.Errorf("request from a used-up sequence: %v, want %v", err, want)
		}
		w.nodes[0].left = 1
		w.move(0, served) // reads
	}
}
