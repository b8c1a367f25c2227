package gate_test

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
)

// verdict is what a simulation has come to.
type verdict struct {
	releases, passed, failed int
	worst                    float64 // the longest time until a pass, of the one promised
}

func (v *verdict) add(other verdict) {
	v.releases += other.releases
	v.passed += other.passed
	v.failed += other.failed
	v.worst = max(v.worst, other.worst)
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

// bound is how long after a release everybody has passed, when nothing else
// happens.
func (s *simulation) bound() time.Duration {
	poll := rarely
	if s.ways == absent || s.ways == dead {
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
			s.judgeStart(events, w)
		}
		if w.after != gate.Now {
			v.worst = max(v.worst, s.judgeWait(events, w))
		}
	}
	return v
}

// judgeStart says whether the waiter may have passed when it did.
func (s *simulation) judgeStart(events []event, w vigil) {
	open, life := false, 0
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
	for _, e := range events {
		// A signal that was under way when the gate was deleted still counts
		// with those who have not known that gate.
		if e.released && e.life < life && w.until.Sub(e.at) < 2*longestSignal+roundTrip {
			open = true
		}
	}
	if !open {
		s.t.Errorf("false start at %v of one who waited since %v for a release after %d", w.until, w.from, w.after)
	}
}

// judgeWait says whether the waiter passed in time, and how much of that it
// took.
func (s *simulation) judgeWait(events []event, w vigil) float64 {
	life := 0 // of the gate when the wait began
	for _, e := range events {
		if e.at.Before(w.from) {
			if e.life != life && w.from.Sub(e.at) < s.bound() {
				return 0 // perhaps the waiter has not heard of that yet
			}
			life = e.life
		}
	}
	for i, e := range events {
		if !e.released || e.life < life || e.life == life && e.state.Generation <= w.after {
			continue
		}
		begin := later(e.at, w.from)
		if s.faulty {
			begin = later(begin, s.calm)
		}
		if i+1 < len(events) && events[len(events)-1].life != e.life && begin.After(events[i+1].at) {
			continue // it was gone before anybody had to see it
		}
		took := w.until.Sub(begin)
		if took > s.bound() {
			s.t.Errorf("left behind: one who waited since %v for a release after %d, which happened at %v, was there until %v (passed: %t)",
				w.from, w.after, e.at, w.until, w.passed)
		}
		if !w.passed {
			return 0
		}
		return float64(took) / float64(s.bound())
	}
	return 0
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

// broken says whether what is stored cannot be read.
func (s *simulation) broken() bool {
	flag, ok := s.store.Get("start")
	var state gate.State
	return ok && (json.Unmarshal([]byte(flag.Text), &state) != nil || len(state.History) == 0)
}

// nonsense is what is found where a gate should be.
var nonsense = []string{
	"",
	"true",
	"released",
	`{"released":true}`,
	`{"version":1,"released":true,"generation":1}`,
	`{"version":2,"released":true,"generation":9,"history":[]}`,
	`{"version":1,"life":"X","released":true,"generation":9,"history":[`,
	"\x00\x00\x00\x00",
}

// fate makes one request in three go wrong, while things do.
func (s *simulation) fate(c memory.Call) memory.Fate {
	f := memory.Fate{Delay: s.upTo(roundTrip / 2), Back: s.upTo(roundTrip / 2)}
	if !s.faulty || !time.Now().Before(s.calm) {
		return f
	}
	lost := errors.New("connection reset")
	switch s.below(24) {
	case 0:
		f.Err = lost // carried out, answer lost
	case 1:
		f.Err, f.Lost = lost, true // never arrived
	case 2:
		f.Err, f.After = lost, s.upTo(3*time.Second) // arrives when nobody expects it
	case 3:
		f.Lost = true // a black hole
	case 4:
		f.Err, f.Lost = memory.ErrBusy, true
	case 5:
		f.Delay = s.upTo(2 * callTimeout) // slower than the caller's patience
	case 6:
		f.Err, f.Lost = errors.New("forbidden"), true
	case 7:
		if c.Op == "Replace" {
			f.Err, f.Lost = gate.ErrChanged, true // a conflict that was none
		}
	}
	return f
}

// signalFate loses one signal in eight, and all if nobody is to hear any.
func (s *simulation) signalFate(int, gate.Signal) memory.SignalFate {
	return memory.SignalFate{
		Lost:  s.ways == silent || s.below(8) == 0,
		Twice: s.below(8) == 0,
		Delay: s.upTo([]time.Duration{50 * time.Millisecond, 50 * time.Millisecond, longestSignal}[s.below(3)]),
	}
}

// below and upTo draw from the seed, a little above zero where time is meant,
// so that no two events of a simulation fall into the same instant.
func (s *simulation) below(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

func (s *simulation) upTo(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 1 + time.Duration(s.rng.Int64N(max(1, int64(d))))
}
