package gate

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// chain is a gate with so many changes, by turns releases and closings.
func chain(from State, changes int) State {
	for range changes {
		t := Transition{Change: closed, Generation: from.Generation, By: "ann", At: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
		if !from.Released {
			t.Change, t.Generation = released, from.Generation+1
		}
		t.Operation = fmt.Sprint(t.Change, t.Generation)
		from = next(from, t).state("start")
	}
	return from
}

func (s State) stored(version string) Flag {
	last := len(s.History) - 1
	before := s
	before.History = s.History[:last]
	return Flag{Text: next(before, s.History[last]).encode(), Version: version}
}

// A write has got no answer, and when the store can be read again, others have
// changed the gate: it was done if the history names it, it was not if the
// history would name it, and else nobody knows.
func TestForgottenOperation(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, since int
		done          bool
		want          verdict
		err           error
	}{
		{"done", 10, 20, true, changed, nil},
		{"not done", 10, 20, false, again, nil},
		{"done, and all but forgotten", 10, maxHistory - 1, true, changed, nil},
		{"not done, and all but forgotten", 10, maxHistory - 1, false, again, nil},
		{"done, and forgotten", 10, maxHistory, true, again, ErrUnclear},
		{"not done, and forgotten", 10, maxHistory, false, again, ErrUnclear},
		{"the first, done", 0, 20, true, changed, nil},
		{"the first, not done", 0, 20, false, again, nil},
		{"the first, done and forgotten", 0, maxHistory, true, again, ErrUnclear},
	} {
		c := &change{gate: "start", to: released, by: "bob", op: "OURS", at: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
		before, held, absent := chain(State{Gate: "start"}, test.before), Flag{}, ErrNotFound
		if test.before > 0 {
			held, absent = before.stored("1"), nil
		}
		if did, err := c.loaded(held, absent); did != again || err != nil {
			t.Fatalf("%s: %v, %v", test.name, did, err)
		}
		_, ours, write, err := c.request()
		if !write || err != nil {
			t.Fatalf("%s: nothing to write: %v", test.name, err)
		}
		if did := c.replaced(Flag{}, errLost); did != unclear {
			t.Fatalf("%s: a lost answer is %v", test.name, did)
		}
		now := before
		if test.done {
			if now, err = parse("start", ours.Text); err != nil {
				t.Fatal(err)
			}
		}
		now = chain(now, test.since)
		did, err := c.loaded(now.stored("2"), nil)
		if !errors.Is(err, test.err) || test.err == nil && did != test.want && !(test.want == again && did == asItWas) {
			t.Errorf("%s: verdict %v, %v, want %v, %v", test.name, did, err, test.want, test.err)
		}
	}
}

// The last generation that can be counted is the last.
func TestLastGeneration(t *testing.T) {
	last := chain(State{Gate: "start", Generation: MaxGeneration - 1, life: "A"}, 2)
	if last.Generation != MaxGeneration || last.Released {
		t.Fatalf("the chain ends with %+v", last)
	}
	c := &change{gate: "start", to: released, by: "bob", op: "B"}
	if did, err := c.loaded(last.stored("1"), nil); did != again || err != nil {
		t.Fatal(did, err)
	}
	if _, _, write, err := c.request(); write || !errors.Is(err, ErrCorrupt) {
		t.Errorf("a release beyond the last is written: %t, %v, want %v", write, err, ErrCorrupt)
	}
}

// What a look shows that was under way when a waiter came may be older than
// what the waiter has seen.
func TestLookUnderWay(t *testing.T) {
	w := &watch{gate: "start"}
	flag := chain(State{Gate: "start", life: "A"}, 2).stored("1")
	for _, began := range []bool{true, false} { // before the waiter came, after it
		p := &waiter{after: 5}
		if began {
			w.begin()
		}
		w.came(p)
		if !began {
			w.begin()
		}
		w.looked(flag, nil)
		if p.ahead != began || w.asked != began {
			t.Errorf("the look began before the waiter came: %t; it is ahead: %t, another look is asked for: %t", began, p.ahead, w.asked)
		}
		w.left(p)
	}
}
