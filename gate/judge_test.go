package gate_test

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"kennel/gate"
)

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

// bound is how long after a release every waiter has passed.
func (s *simulation) bound() time.Duration {
	switch {
	case s.faulty: // a read just before the calm may have failed
		return rarely + rarely/10 + roundTrip + callTimeout
	case s.ways == absent || s.ways == dead:
		return often + often/10 + roundTrip
	}
	return rarely + rarely/10 + roundTrip
}

func (s *simulation) judge() {
	events, byHand := s.events()
	for _, e := range events {
		if e.op != "" && e.state.Released {
			s.Count("releases", 1)
		}
	}
	s.judgeChanges(events, byHand)
	for _, w := range s.stays {
		if w.passed {
			s.Count("passes", 1)
			if w.closed {
				s.Count("passes of a closed gate", 1)
			}
			if !mayPass(events, w) {
				s.Count("false starts", 1)
				s.Errorf("false start at %v: the waiter came at %v with generation %d", w.until, w.from, w.after)
			}
		}
		begin, bound := s.mustPass(events, w)
		switch {
		case bound == 0:
		case w.until.After(begin.Add(bound)):
			s.Count("left behind", 1)
			s.Errorf("left behind: the waiter came at %v with generation %d, should pass within %v from %v, and was there until %v (passed: %t)",
				w.from, w.after, bound, begin, w.until, w.passed)
		case w.passed:
			s.Max("time to pass, of the bound", float64(w.until.Sub(begin))/float64(bound))
		}
	}
}

// mayPass reports whether the store ever held a greater generation than the
// waiter's. One that came without passes a gate that is released while it
// waits, and has seen what the store held then otherwise.
func mayPass(events []event, w stay) (may bool) {
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
func (s *simulation) mustPass(events []event, w stay) (begin time.Time, bound time.Duration) {
	if w.after == gate.Now && s.faulty {
		return begin, 0 // it may have learned nothing before the calm; others wait from then on
	}
	for i, e := range events {
		if begin = e.at; begin.Before(w.from) {
			begin = w.from
		}
		after := w.after
		if after == gate.Now {
			// Its first read is over after two round trips: one may be under way
			// when it comes. What it finds then or before decides.
			if after = e.state.Generation - 1; begin.Before(w.from.Add(2 * roundTrip)) {
				begin = w.from.Add(2 * roundTrip)
			}
			if !e.state.Released || slices.ContainsFunc(events[i+1:], func(next event) bool { return !next.at.After(begin) }) {
				continue
			}
		}
		if s.faulty && begin.Before(s.calm) {
			begin = s.calm
		}
		bound := s.bound()
		lower := func(next event) bool { return !next.at.After(begin.Add(bound)) && next.state.Generation <= after }
		if e.state.Generation > after && !slices.ContainsFunc(events[i+1:], lower) {
			return begin, bound
		}
	}
	return begin, 0
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
			s.Errorf("%q has made %+v of %+v", e.state.Reason, e.state, before)
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
			s.Count("disagreed", 1)
			s.Errorf("%q was done %d times, and its administrator got: %v", reason, n, got)
		}
	}
}
