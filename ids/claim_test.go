package ids

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

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
	e.operate(w)
	for i := range w.nodes {
		e.close(w, i)
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

// writing reports whether the outcome of a write is not known to its node.
func (w *world) writing() bool {
	for _, n := range w.nodes {
		if n.claim.pending != nil {
			return true
		}
	}
	return w.nLate > 0
}

// operate makes every step of the operators: the mark is deleted, or replaced
// by an older one, or raised.
func (e *explorer) operate(w world) {
	if w.harms > 0 && w.known && w.mark.Version != "" && w.raise.done {
		v := w
		v.harms--
		v.harmed, v.spread, v.mark = true, w.creating(), Mark{}
		e.step("the mark is deleted", v)
		if w.older.Text != w.mark.Text {
			v.version++
			v.spread, v.mark = false, w.older
			v.mark.Version = strconv.Itoa(v.version)
			for i := range v.nodes {
				n := &v.nodes[i]
				n.knows = max(n.claim.own.end, n.saw) > peakOf(v.mark) && v.mark.History != "" && !v.writing()
			}
			e.step("an older mark is restored", v)
		}
	}
	if w.raises > 0 && w.raise.done {
		v := w
		v.raises--
		v.raise = raise{atLeast: raisedTo, writer: fmt.Sprintf("raise%d", v.raises)}
		e.step("a raise begins", v)
	}
	if w.raise.done {
		return
	}
	for _, outcome := range []int{served, refused, replyLost} {
		v := w
		if outcome != served {
			if v.faults == 0 {
				break
			}
			v.faults--
		}
		if v.raise.write == nil {
			m, err := v.load()
			if outcome != served {
				m, err = Mark{}, errLost
			}
			v.raise.loaded(m, err)
		} else {
			err := errLost
			if outcome != refused {
				if _, wrong := v.replace(*v.raise.write); outcome == served || wrong != nil {
					err = wrong
				}
			}
			v.raise.replaced(err)
		}
		if v.raise.done && v.raise.result.Next >= raisedTo {
			v.harmed = false
			for i := range v.nodes {
				v.nodes[i].knows = false
			}
		}
		e.step(fmt.Sprintf("the raise: outcome %d", outcome), v)
	}
}

// close makes a node return the last number that it reserved. Whatever becomes
// of the write, the node does not issue the number any more.
func (e *explorer) close(w world, i int) {
	n := &w.nodes[i]
	if !w.closing || n.last.Count() < 2 || n.claim.pending != nil || n.claim.owed != nil {
		return
	}
	last := n.last.Last
	if !w.harmed {
		w.reserved &^= 1 << last
	}
	n.left, n.last = 0, Range{First: 1}
	e.step(fmt.Sprintf("node %d closes", i), w)
	give := n.claim.giveBack(Range{First: last, Last: last}, last)
	if give == nil {
		return
	}
	n.claim.pending = nil // it makes no request any more
	v := w
	v.replace(*give)
	e.step(fmt.Sprintf("node %d closes and returns %d", i, last), v)
	if w.nLate < len(w.late) && w.faults > 0 {
		w.faults--
		w.late[w.nLate] = *give
		w.nLate++
		e.step(fmt.Sprintf("node %d closes and returns %d later", i, last), w)
	}
}

// TestClaimEveryOrder drives three nodes through two reservations each, in
// every order of their requests, with every kind of fault at every request, and
// two nodes also through closing, deletion, restoration and raising.
func TestClaimEveryOrder(t *testing.T) {
	type size struct {
		nodes, reservations, faults int
		harms, raises               int
		closing                     bool
	}
	sizes := []size{{3, 2, 0, 0, 0, false}, {3, 1, 1, 0, 0, false}, {2, 1, 1, 0, 0, true}, {1, 2, 2, 0, 0, false}, {1, 2, 1, 1, 1, true}, {2, 1, 0, 1, 1, true}}
	if os.Getenv("KENNEL_PROVE") != "" { // storetest imports this package
		sizes = []size{{3, 2, 0, 0, 0, true}, {3, 2, 1, 0, 0, false}, {3, 1, 2, 0, 0, false}, {2, 2, 2, 0, 0, true}, {2, 1, 1, 1, 1, true}, {2, 2, 0, 1, 1, true}, {3, 1, 0, 1, 1, true}}
	}
	worlds, duplicates := 0, 0
	for _, start := range []Mark{{}, {Text: "1", Version: "0"}} { // a new and an existing sequence
		for _, size := range sizes {
			t.Run(fmt.Sprintf("%q/%+v", start.Text, size), func(t *testing.T) {
				w := world{mark: start, older: start, faults: size.faults, harms: size.harms, raises: size.raises, closing: size.closing}
				w.raise.done = true
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
				t.Logf("%d states", len(e.seen))
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
	w.move(0, served) // has the store remember the sequence
	for _, want := range []error{nil, ErrExhausted} {
		if _, err := w.nodes[0].claim.request(1, 1); !errors.Is(err, want) {
			t.Errorf("request from a used-up sequence: %v, want %v", err, want)
		}
		w.nodes[0].left = 1
		w.move(0, served) // reads
	}
}
