package gate_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"kennel/gate"
)

// verdict is what one simulation, or all of them, came to.
type verdict struct {
	runs, dead       int // simulations, and those without any signal
	releases, failed int
	passed, closed   int     // waiters that passed, and those for which the gate was closed again by then
	falsely, late    int     // waiters
	worst            float64 // the longest time until a pass, of the one promised
}

func (v *verdict) add(other verdict) {
	v.runs += other.runs
	v.dead += other.dead
	v.releases += other.releases
	v.failed += other.failed
	v.passed += other.passed
	v.closed += other.closed
	v.falsely += other.falsely
	v.late += other.late
	v.worst = max(v.worst, other.worst)
}

func (v *verdict) figures(t *testing.T) {
	t.Logf("%+v", *v)
	t.Logf("figure: false starts in %d simulations with faults of every kind, %d of them without signals | %d of %d | 0", v.runs, v.dead, v.falsely, v.passed)
	t.Logf("figure: … waiters left behind | %d of %d | 0", v.late, v.passed)
	t.Logf("figure: … the latest pass after a release, of 1.1 × poll + a round trip | %.0f %% | ≤ 100 %%", 100*v.worst)
}

// event is a change of the stored gate.
type event struct {
	at    time.Time
	state gate.State // zero if it was deleted or made unreadable
	op    string     // of the change, "" if it was made by hand
}

// events reads the past without the package under test.
func (s *simulation) events() (events []event, byHand bool) {
	done := make(map[string]bool)
	for _, flag := range s.store.Past("start") {
		e := event{at: flag.At}
		if json.Unmarshal([]byte(flag.Text), &e.state) != nil || len(e.state.History) == 0 {
			e.state = gate.State{}
		} else {
			last := e.state.History[len(e.state.History)-1]
			e.state.ChangedAt, e.state.By, e.state.Reason = last.At, last.By, last.Reason
			if !done[last.Operation] {
				e.op = last.Operation
			}
			done[last.Operation] = true
		}
		byHand = byHand || e.op == "" || len(e.state.History) > 0 && e.state.History[0].Replaced != ""
		events = append(events, e)
	}
	return events, byHand
}

// bound is how long after a release at that time every waiter has passed.
func (s *simulation) bound(from time.Time) time.Duration {
	switch {
	case s.faulty: // a read just before the calm may have failed
		return rarely + rarely/10 + roundTrip + callTimeout
	case s.ways == absent || s.ways == dead || s.ways == severed && !s.cut.IsZero() && from.After(s.cut):
		return often + often/10 + roundTrip
	}
	return rarely + rarely/10 + roundTrip
}

func (s *simulation) judge() verdict {
	v := verdict{runs: 1, failed: s.failed}
	if s.ways == absent || s.ways == dead || s.ways == silent {
		v.dead = 1
	}
	events, byHand := s.events()
	for _, e := range events {
		if e.op != "" && e.state.Released {
			v.releases++
		}
		if *simulateOne != 0 {
			s.t.Logf("%v: %s, generation %d, released %t: %q", e.at, e.op, e.state.Generation, e.state.Released, e.state.Reason)
		}
	}
	s.judgeLast(events)
	s.judgeStates(events)
	s.judgeChanges(events, byHand)
	for _, w := range s.vigils {
		if w.passed {
			v.passed++
			if w.closed {
				v.closed++
			}
			if !mayPass(events, w) {
				v.falsely++
				s.t.Errorf("false start at %v: the waiter came at %v with generation %d", w.until, w.from, w.after)
			}
		}
		begin, bound := s.mustPass(events, w)
		switch {
		case bound == 0:
		case w.until.After(begin.Add(bound)):
			v.late++
			s.t.Errorf("left behind: the waiter came at %v with generation %d, should pass within %v from %v, and was there until %v (passed: %t)",
				w.from, w.after, bound, begin, w.until, w.passed)
		case w.passed:
			v.worst = max(v.worst, float64(w.until.Sub(begin))/float64(bound))
		}
	}
	return v
}

// mayPass reports whether the store ever held a greater generation than the
// waiter's. One that came without passes a gate that is released while it
// waits, and has seen what the store held then otherwise.
func mayPass(events []event, w vigil) (may bool) {
	seen := w.after
	for _, e := range events {
		switch {
		case e.at.After(w.until):
		case w.after != gate.Now:
			may = may || e.state.Generation > seen
		case e.at.Before(w.from):
			may, seen = e.state.Released, e.state.Generation
		default:
			may = may || e.state.Released || e.state.Generation > seen
			seen = min(seen, e.state.Generation)
		}
	}
	return may
}

// mustPass returns from when on the waiter has to pass within bound; 0: it need
// not.
func (s *simulation) mustPass(events []event, w vigil) (begin time.Time, bound time.Duration) {
	if w.after == gate.Now && s.faulty {
		return begin, 0 // it may have learned nothing before the calm; others wait from then on
	}
	for i, e := range events {
		begin = later(e.at, w.from)
		after := w.after
		if after == gate.Now {
			// Its first read is over after two round trips: one may be under way
			// when it comes. What it finds then or before decides.
			begin, after = later(begin, w.from.Add(2*roundTrip)), e.state.Generation-1
			if !e.state.Released || slices.ContainsFunc(events[i+1:], func(next event) bool { return !next.at.After(begin) }) {
				continue
			}
		}
		if s.faulty {
			begin = later(begin, s.calm)
		}
		bound := s.bound(begin)
		lower := func(next event) bool { return !next.at.After(begin.Add(bound)) && next.state.Generation <= after }
		if e.state.Generation > after && !slices.ContainsFunc(events[i+1:], lower) {
			return begin, bound
		}
	}
	return begin, 0
}

// judgeLast checks the rule of generations: the last release came a second
// after everything by hand, and is greater than all before. (There is none if
// a late write of a former release created the deleted gate again.)
func (s *simulation) judgeLast(events []event) {
	last := events[len(events)-1]
	if last.state.By != "last" {
		return
	}
	for _, e := range events[:len(events)-1] {
		if e.state.Generation >= last.state.Generation {
			s.t.Errorf("the last release has generation %d, and there was %d before", last.state.Generation, e.state.Generation)
		}
	}
}

// judgeStates compares what waiters got with what was ever stored.
func (s *simulation) judgeStates(events []event) {
	for _, got := range s.states {
		ever := slices.ContainsFunc(events, func(e event) bool {
			was := e.state
			return got.Released == was.Released && got.Generation == was.Generation && got.Releases == was.Releases &&
				got.ChangedAt.Equal(was.ChangedAt) && got.By == was.By && got.Reason == was.Reason
		})
		if never := got.Generation == 0 && !got.Released && got.By == "" && got.ChangedAt.IsZero(); !ever && !never {
			s.t.Errorf("a waiter got a state that never was: %+v", got)
		}
	}
}

// judgeChanges compares what administrators got with what was done. What was
// done by hand may have removed it.
func (s *simulation) judgeChanges(events []event, byHand bool) {
	done := make(map[string]int)
	before := gate.State{}
	for _, e := range events {
		if e.op != "" {
			done[e.state.Reason]++
		}
		if !byHand && (e.state.Released == before.Released || e.state.Generation > before.Generation != e.state.Released) {
			s.t.Errorf("%q has made %+v of %+v", e.state.Reason, e.state, before)
		}
		before = e.state
	}
	for reason, got := range s.changes {
		n := done[reason]
		switch {
		case byHand:
		case got == nil && n == 1, errors.Is(got, gate.ErrUnclear) && n <= 1:
		case got != nil && !errors.Is(got, gate.ErrUnclear) && n == 0:
		default:
			s.t.Errorf("%q was done %d times, and its administrator got: %v", reason, n, got)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
