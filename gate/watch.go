package gate

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// Now, as the generation that a waiter has seen, says that it has seen none:
// it passes when the gate is found released, or else with the next release.
const Now = -1

// watch is what one process knows of one gate, and who waits for more. It is
// pure state: it learns from looks at the store and from signals, and says how
// soon it wants to look again, so that a test can drive it through every order
// of events.
//
// The rules:
//
//   - Only the answer of a look and a signal of a newer state change what is
//     known. An error changes nothing.
//   - A look has the last word over signals heard before it began.
//   - Signals are relied on only after a look that began while they were
//     heard: whatever was published before is in what it saw.
//   - A gate that was deleted and begun anew, or forced, has another life. Its
//     releases come after everything that waiters have seen.
//   - A gate that was put back to what it once was has no other life. Its next
//     release comes after everything that waiters have seen, and no former one.
type watch struct {
	gate    string
	state   State     // the newest that the store has shown or a signal has told
	waiting []*waiter // in no order

	stored   State  // what the last look that showed a state has shown
	shown    int64  // the generation when a look last found the gate
	life     string // of the gate that a look or signal last told of
	peak     int64  // the highest generation that was told of it
	seen     string // its version
	nonsense error  // what was wrong with it; then stored is older
	trouble  error  // why the last look has shown no state; nil if it has
	failed   int    // looks in a row that got no answer
	begun    bool   // a look has ever begun
	known    bool   // a look has ever shown a state

	asked   bool // somebody waits for a look that has not begun yet
	hearsay bool // there was a signal that no look has confirmed yet

	up      bool // signals are heard
	covered bool // and have been since before the last look began

	looking bool // a look is under way …
	coverer bool // … which began while signals were heard, without a break since
	doubted bool // … and was overtaken by a signal
}

// waiter is one who waits at the gate.
type waiter struct {
	after int64 // passes with a later generation; Now until a look has shown which
	fresh bool  // a look has begun since it came
	ahead bool  // it came having seen more than is known here, and no look has shown since whether it can have

	until time.Time     // its time is over then
	done  chan struct{} // closed when the wait has ended, with what is below

	waited *Waited // nil until then; shared by those who pass together
	err    error   // why it was sent away from a gate that is not known to be shut
}

// wish is how soon a watch wants to look.
type wish int

const (
	lookRarely wish = iota // signals are heard: poll to be sure
	lookOften              // they are not: poll
	lookLater              // the last look got no answer: back off
	lookSoon               // a signal wants to be confirmed: in our turn
	lookSooner             // the same while signals are not relied on: no later than a poll
	lookNow                // somebody has come
)

func (w *watch) wish() wish {
	switch {
	case w.failed > 0:
		return lookLater // whoever comes: many come
	case !w.begun || w.asked:
		return lookNow
	case w.hearsay && w.covered:
		return lookSoon
	case w.hearsay:
		return lookSooner
	case w.covered:
		return lookRarely
	default:
		return lookOften
	}
}

// came takes up a waiter, who may pass at once.
func (w *watch) came(p *waiter) (passes bool) {
	if w.admits(p) {
		return true
	}
	// Whoever has seen more than we have is the news, unless the gate has gone
	// back: without a look it would be told of a generation that it has passed
	// long ago.
	p.ahead = p.after > w.state.Generation
	if p.after == Now || p.ahead {
		w.asked = true
	}
	w.waiting = append(w.waiting, p)
	return false
}

func (w *watch) left(p *waiter) {
	w.waiting = slices.DeleteFunc(w.waiting, func(other *waiter) bool { return other == p })
}

// begin starts a look and returns the version that need not be sent again.
func (w *watch) begin() (seen string) {
	w.begun, w.looking, w.asked = true, true, false
	w.coverer, w.doubted = w.up, false
	for _, p := range w.waiting {
		p.fresh = true
	}
	return w.seen
}

// looked learns from the answer of the look. It reports whether the gate has
// gone back: it was deleted, and perhaps begun anew, or a signal has told what
// was not so.
func (w *watch) looked(f Flag, err error) (back bool) {
	w.looking = false
	switch {
	case err == nil:
		w.seen = f.Version
		var s State
		if s, w.nonsense = parse(w.gate, f.Text); w.nonsense == nil {
			w.stored = s
		}
	case errors.Is(err, ErrNotFound):
		w.seen, w.stored, w.nonsense = "", State{Gate: w.gate}, nil
	case errors.Is(err, ErrUnchanged) && w.seen != "":
	default:
		w.trouble, w.failed = err, w.failed+1
		return false
	}
	w.failed, w.trouble = 0, w.nonsense
	w.covered = w.up && w.coverer
	if !w.doubted {
		w.hearsay = false
	}
	if w.nonsense != nil {
		return false
	}
	w.known = true
	if w.stored.age() >= w.state.age() {
		w.state = w.stored
	} else if !w.doubted {
		w.state, back = w.stored, true
	}
	if w.stored.life != "" {
		anew := w.life != "" && w.life != w.stored.life
		putBack := !anew && !w.doubted && w.stored.Generation < w.peak
		for _, p := range w.waiting {
			switch {
			case p.after == Now || p.after > w.peak:
				// Whoever waits for more than we have seen of what was has
				// perhaps seen what is, through another process.
			case anew:
				p.after = w.stored.base
			case putBack:
				p.after = min(p.after, w.stored.Generation)
			}
		}
		if anew || putBack {
			w.peak = 0
		}
		w.life, w.peak, w.shown = w.stored.life, max(w.peak, w.stored.Generation), w.stored.Generation
	}
	for _, p := range w.waiting {
		p.ahead = p.ahead && !p.fresh
		// Those who have seen nothing begin with what this look has seen,
		// unless they came when it was under way. A gate that is gone may be
		// put back as it was.
		switch {
		case p.after != Now || !p.fresh:
		case w.stored.Released:
			p.after = w.stored.Generation - 1
		default:
			p.after = w.shown
		}
	}
	return back
}

// admits says whether a waiter may pass.
func (w *watch) admits(p *waiter) bool {
	return p.after != Now && w.state.Generation > max(p.after, w.stored.base)
}

// heard learns from a signal. One that is no news, is not whole, is from
// another life or has no gate says only that something has happened.
func (w *watch) heard(s Signal) {
	told := State{
		Gate: w.gate, Released: s.Released, Generation: s.Generation,
		ChangedAt: s.At.UTC(), By: s.By, Reason: s.Reason,
	}
	if s.Gate != "" && s.Gate != w.gate {
		return
	}
	w.hearsay, w.doubted = true, true
	ours := s.Life == "" || w.life == "" || s.Life == w.life
	if ours && s.Gate == w.gate && s.whole() && told.age() > w.state.age() {
		w.state = told
		w.life, w.peak = cmp.Or(w.life, s.Life), max(w.peak, s.Generation)
	}
}

// listens learns whether signals are heard from now on. Either way some may
// have been missed until now.
func (w *watch) listens(up bool) {
	w.up, w.covered, w.coverer = up, false, false
}

// pass takes those out who may pass.
func (w *watch) pass() (passing []*waiter) {
	w.waiting = slices.DeleteFunc(w.waiting, func(p *waiter) bool {
		passes := w.admits(p)
		if passes {
			if passing == nil {
				passing = make([]*waiter, 0, len(w.waiting))
			}
			passing = append(passing, p)
		}
		return passes
	})
	return passing
}
