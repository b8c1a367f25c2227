package gate_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"kennel/gate"
)

// verdict is what a simulation has come to.
type verdict struct {
	ways             [allWays]int // simulations
	releases, failed int
	passed, rearmed  int     // all who did, and those for whom the gate was shut again by then
	falsely          int     // passed
	late, never      int     // passed after the time promised; not at all, though there was a release
	worst            float64 // the longest time until a pass, of the one promised
}

func (v *verdict) add(other verdict) {
	for i, n := range other.ways {
		v.ways[i] += n
	}
	v.releases += other.releases
	v.failed += other.failed
	v.passed += other.passed
	v.rearmed += other.rearmed
	v.falsely += other.falsely
	v.late += other.late
	v.never += other.never
	v.worst = max(v.worst, other.worst)
}

func (v *verdict) figures(t *testing.T) {
	all := 0
	for _, n := range v.ways {
		all += n
	}
	t.Logf("figure: false starts in %d simulations with faults of every kind | %d | 0", all, v.falsely)
	t.Logf("figure: … in %d of which signals are wholly dead: waiters left behind | %d of %d | 0",
		v.ways[absent]+v.ways[dead]+v.ways[severed]+v.ways[silent], v.late+v.never, v.passed+v.never)
	t.Logf("figure: … generations missed by who came back to a gate shut again | %d of %d | 0", v.never, v.rearmed+v.never)
	t.Logf("figure: … the latest pass after a release, of 1.1 × poll + a round trip | %.0f %% | ≤ 100 %%", 100*v.worst)
}

// event is a change of the stored gate.
type event struct {
	at       time.Time
	state    gate.State // zero if it was deleted or made unreadable
	life     int        // counts deletions and changes by force
	released bool       // by this very change
	reason   string     // of this very change, "" if it was done by hand
}

// events reads the past without the help of the package under test.
func (s *simulation) events() (events []event) {
	lastOperation, life := "", 0
	for _, flag := range s.store.Past("start") {
		e := event{at: flag.At}
		if flag.Version == "" {
			life++
		}
		if json.Unmarshal([]byte(flag.Text), &e.state) == nil && len(e.state.History) > 0 {
			last := e.state.History[len(e.state.History)-1]
			e.state.ChangedAt, e.state.By, e.state.Reason = last.At, last.By, last.Reason
			if last.Operation != lastOperation { // else somebody has put back what had been there
				e.released, e.reason = last.Change == "release", last.Reason
				lastOperation = last.Operation
				if last.Replaced != "" {
					life++
				}
			}
		} else {
			e.state = gate.State{}
		}
		e.life = life
		events = append(events, e)
	}
	return events
}

// bound is how long after a release at that time everybody has passed, when
// nothing else happens.
func (s *simulation) bound(from time.Time) time.Duration {
	poll := rarely
	if s.ways == absent || s.ways == dead || s.ways == severed && !s.cut.IsZero() && from.After(s.cut) {
		poll = often
	}
	if s.faulty {
		// A look that got no answer just before the calm was followed by the
		// longest back-off.
		return rarely + rarely/10 + roundTrip + callTimeout
	}
	return poll + poll/10 + roundTrip
}

func (s *simulation) judge() verdict {
	events := s.events()
	v := verdict{failed: s.failed}
	v.ways[s.ways] = 1
	for _, e := range events {
		if e.released {
			v.releases++
		}
		if *simulateOne != 0 {
			s.t.Logf("%v: life %d, generation %d, released %t: %q", e.at, e.life, e.state.Generation, e.state.Released, e.reason)
		}
	}
	s.judgeChanges(events)
	s.judgeStates(events)
	for _, w := range s.vigils {
		if w.passed {
			v.passed++
			if w.shut {
				v.rearmed++
			}
			if !s.mayPass(events, w) {
				v.falsely++
				s.t.Errorf("false start at %v of one who waited since %v for a release after %d", w.until, w.from, w.after)
			}
		}
		deadline, release := s.deadline(events, w)
		switch {
		case deadline.IsZero():
		case w.until.After(deadline):
			if w.passed {
				v.late++
			} else {
				v.never++
			}
			s.t.Errorf("left behind: one who waited since %v for a release after %d, which happened at %v, was there until %v (passed: %t)",
				w.from, w.after, release, w.until, w.passed)
		case w.passed:
			begin := later(release, w.from)
			v.worst = max(v.worst, float64(w.until.Sub(begin))/float64(deadline.Sub(begin)))
		}
	}
	return v
}

// mayPass says whether the waiter may have passed when it did.
func (s *simulation) mayPass(events []event, w vigil) (open bool) {
	life := 0
	for _, e := range events {
		if e.at.After(w.until) {
			break
		}
		life = e.life
		switch {
		case w.after != gate.Now:
			open = open || e.released && (e.state.Generation > w.after || e.life > 0)
		case e.at.Before(w.from):
			open = e.state.Released
		default: // it was open at some moment of the wait
			open = open || e.state.Released || e.released
		}
	}
	for i, e := range events {
		// A signal that was under way when the gate was deleted, or about to
		// be sent by who had just read it, still counts with those who have not
		// known that gate.
		if e.released && e.life < life {
			ended := events[i+slices.IndexFunc(events[i:], func(other event) bool { return other.life > e.life })].at
			open = open || w.until.Sub(ended) < changeTimeout+2*longestSignal
		}
	}
	return open
}

// deadline is when the waiter has passed at the latest, and the release for
// which; zero if there was none.
func (s *simulation) deadline(events []event, w vigil) (at, release time.Time) {
	if w.after == gate.Now {
		return s.deadlineNow(events, w)
	}
	life := 0 // of the gate when the wait began
	for _, e := range events {
		if e.at.Before(w.from) {
			if e.life != life && w.from.Sub(e.at) < s.bound(e.at) {
				return at, release // perhaps the waiter has not heard of that yet
			}
			life = e.life
		}
	}
	for i, e := range events {
		if !e.released || e.life < life || e.life == life && e.state.Generation <= w.after {
			continue
		}
		// A late echo of the write that has made the gate makes it again after
		// it was deleted: the same release, which this one has seen.
		echo := func(before event) bool { return before.released && before.reason == e.reason }
		if e.state.Generation <= w.after && slices.ContainsFunc(events[:i], echo) {
			continue
		}
		begin := later(e.at, w.from)
		if s.faulty {
			begin = later(begin, s.calm)
		}
		if i+1 < len(events) && events[len(events)-1].life != e.life && begin.After(events[i+1].at) {
			continue // it was gone before anybody had to see it
		}
		return begin.Add(s.bound(begin)), begin
	}
	return at, release
}

// deadlineNow is the same for who has seen no generation. Its first look is
// over after two round trips, as one may be under way when it comes; there and
// then it finds the gate released, or else it passes with the next release.
func (s *simulation) deadlineNow(events []event, w vigil) (at, release time.Time) {
	if s.faulty {
		return at, release // it need not have seen anything before the calm, and what then is judged with others
	}
	looked := w.from.Add(2 * roundTrip)
	for i, e := range events {
		shutAgain := i+1 < len(events) && !events[i+1].at.After(looked)
		switch {
		case e.at.Before(w.from):
			if e.state.Released && !shutAgain {
				return looked, w.from
			}
		case e.released && (e.at.After(looked) || !shutAgain):
			return e.at.Add(s.bound(e.at)), e.at
		}
	}
	return at, release
}

// judgeStates compares what waiters were told with what was ever stored.
func (s *simulation) judgeStates(events []event) {
	for _, told := range s.told {
		ever := slices.ContainsFunc(events, func(e event) bool {
			was := e.state
			return told.Released == was.Released && told.Generation == was.Generation &&
				told.ChangedAt.Equal(was.ChangedAt) && told.By == was.By && told.Reason == was.Reason
		})
		if never := told.Generation == 0 && !told.Released && told.By == "" && told.ChangedAt.IsZero(); !ever && !never {
			s.t.Errorf("a waiter was told of a state that never was: %+v", told)
		}
	}
}

// judgeChanges compares what administrators were told with what was done.
func (s *simulation) judgeChanges(events []event) {
	done := make(map[string]int)
	before := event{}
	for _, e := range events {
		if e.reason != "" {
			done[e.reason]++
			if e.state.Released == before.state.Released && e.state.Generation > 0 && before.state.Generation > 0 {
				s.t.Errorf("%q has changed nothing", e.reason)
			}
			if e.released && before.life == e.life && before.state.Generation > 0 && e.state.Generation != before.state.Generation+1 {
				s.t.Errorf("%q has released generation %d after %d", e.reason, e.state.Generation, before.state.Generation)
			}
		}
		before = e
	}
	anew := len(events) > 0 && events[len(events)-1].life > 0
	for reason, told := range s.changes {
		n := done[reason]
		switch {
		case anew: // with the former life its history has gone
		case told == nil && n == 1, errors.Is(told, gate.ErrUnclear) && n <= 1:
		case told != nil && !errors.Is(told, gate.ErrUnclear) && n == 0:
		default:
			s.t.Errorf("%q was done %d times, and its administrator was told: %v", reason, n, told)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
