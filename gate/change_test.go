package gate

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// chain is a gate after so many changes, by turns releases and closes.
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

// flag returns what a store holds for a gate after so many changes.
func (s State) flag(version string) Value {
	if len(s.History) == 0 {
		return Value{}
	}
	d := document{Version: format, Released: s.Released, Generation: s.Generation, Releases: s.Releases, History: s.History}
	return Value{Text: d.encode(), Version: version}
}

// A write got no answer, and when the store can be read again, others have
// changed the gate: it was done if the history names it, it was not if the
// history would name it, and else that is not known.
func TestForgottenOperation(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, since int
		done          bool
		want          verdict
		err           error
	}{
		{"done", 10, 20, true, changed, nil},
		{"not done", 10, 20, false, again, nil},
		{"done, the oldest in the history", 10, maxHistory - 1, true, changed, nil},
		{"not done, the history goes back far enough", 10, maxHistory - 1, false, again, nil},
		{"done, and forgotten", 10, maxHistory, true, again, ErrUnclear},
		{"not done, and the history is too short", 10, maxHistory, false, again, ErrUnclear},
		{"the first, not done", 0, 20, false, again, nil},
		{"the first, done and forgotten", 0, maxHistory, true, again, ErrUnclear},
	} {
		c := &change{gate: "start", to: released, by: "bob", op: "OURS"}
		before := chain(State{Gate: "start"}, tt.before)
		c.loaded(before.flag("1"), nil)
		c.request()
		if did := c.replaced(Value{}, errReset); did != unclear {
			t.Fatalf("%s: a lost answer is %v", tt.name, did)
		}
		now := before
		if tt.done {
			now = c.planned
		}
		did, err := c.loaded(chain(now, tt.since).flag("2"), nil)
		if !errors.Is(err, tt.err) || tt.err == nil && did != tt.want && !(tt.want == again && did == asItWas) {
			t.Errorf("%s: verdict %v, %v, want %v, %v", tt.name, did, err, tt.want, tt.err)
		}
	}
}

// A release sets the larger of the store's clock and the next number. A close
// keeps the generation. Beyond the last generation there is none.
func TestGeneration(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	for _, tt := range []struct {
		before int64
		to     string
		clock  time.Time
		want   int64
		err    error
	}{
		{0, released, at(5000), 5000, nil},
		{1000, released, at(5000), 5000, nil},
		{5000, released, at(5000), 5001, nil},
		{9000, released, at(5000), 9001, nil}, // the clock went back
		{9000, closed, at(50000), 9000, nil},
		{MaxGeneration - 1, released, at(5000), MaxGeneration, nil},
		{MaxGeneration, closed, at(5000), MaxGeneration, nil},
		{MaxGeneration, released, at(5000), 0, ErrCorrupt},
	} {
		c := &change{gate: "start", to: tt.to, by: "bob", op: "B"}
		from := State{}
		if tt.before > 0 {
			from = chain(State{Gate: "start", Generation: tt.before - 1}, 1)
			if tt.to == released {
				from = chain(from, 1)
			}
		}
		f := from.flag("1")
		f.ReadAt = tt.clock
		if did, err := c.loaded(f, nil); did != again || err != nil {
			t.Fatal(did, err)
		}
		_, _, write, err := c.request()
		if write != (tt.err == nil) || !errors.Is(err, tt.err) || write && (c.planned.Generation != tt.want || !c.planned.ChangedAt.Equal(tt.clock)) {
			t.Errorf("a %s at %d, the store's clock at %d: %+v, %v, want generation %d", tt.to, tt.before, tt.clock.UnixMilli(), c.planned, err, tt.want)
		}
	}
}

// noStore is a store that is not used.
type noStore struct{ Store }

func TestOptions(t *testing.T) {
	if _, err := New(nil, nil); err == nil {
		t.Error("gates without a store are accepted")
	}
	for _, o := range []*Options{nil, {}, {PollOften: time.Minute}, {PollOften: 10 * time.Millisecond, PollRarely: 10 * time.Millisecond}} {
		if g, err := New(noStore{}, o); err != nil || g.opt.PollRarely < g.opt.PollOften || g.opt.CallTimeout <= 0 {
			t.Errorf("%+v: %+v, %v", o, g, err)
		}
	}
	for _, o := range []Options{{PollOften: time.Millisecond}, {PollRarely: time.Second}, {CallTimeout: -1}, {ChangeTimeout: -1}} {
		if _, err := New(noStore{}, &o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
