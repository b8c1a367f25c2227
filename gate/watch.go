package gate

import (
	"errors"
	"time"
)

// watch is what this process knows of one gate at which it has waiters, or had
// until its next poll, and who they are. Gates.mu guards it.
//
// The methods in this file are pure state, so that a test can drive them
// through every order of events. The rules:
//
//   - Only what the store answers changes what is known: to a read, or to a
//     change by this process. An error changes nothing.
//   - A signal causes a read that begins after it.
//   - Signals are relied on only after a read that began while they were
//     received: a change that was published before is in its answer.
type watch struct {
	gate    string
	waiting map[*waiter]struct{}

	known    bool   // the store has answered once
	state    State  // the newest that it has shown
	version  string // of the last document that it has shown; "" for none
	parseErr error  // why that document cannot be used; state is older then
	lastErr  error  // why the last read showed no state; nil if it did

	reads     int  // begun so far
	reading   bool // one is under way …
	overtaken bool // … and a change by this process was confirmed since it began

	wanted    bool // a waiter needs a read that has not begun
	signalled bool // a signal arrived after the last read began

	receiving bool // signals
	since     bool // … without a break since before the last read began
	covered   bool // … and that read was answered: a release would be signalled

	reader
}

// arrive adds a waiter, unless it passes at once.
func (w *watch) arrive(p *waiter) (passes bool) {
	if w.admits(p) {
		return true
	}
	// A waiter that has seen more than is known here may have passed a newer
	// release elsewhere. Answering it with our state would let it pass that
	// release again.
	p.reads, p.unread = w.reads, p.after == Now || p.after > w.state.Generation || w.reads == 0
	w.wanted = w.wanted || p.unread
	w.waiting[p] = struct{}{}
	return false
}

// admits reports whether a waiter may pass.
func (w *watch) admits(p *waiter) bool {
	return p.after != Now && w.state.Generation > p.after
}

// begin starts a read and returns the version that need not be sent again.
func (w *watch) begin() (seen string) {
	w.reads++
	w.reading, w.overtaken, w.wanted, w.signalled = true, false, false, false
	w.since = w.receiving
	return w.version
}

// afterRead takes the answer to the read and returns the waiters that pass.
func (w *watch) afterRead(v Value, err error) (passing []*waiter) {
	w.reading = false
	if w.overtaken {
		w.wanted = true // the answer may be older than our own change: read again
		return nil
	}
	switch {
	case err == nil:
		var s State
		if s, w.parseErr = StateOf(w.gate, v); w.parseErr == nil {
			w.known, w.state = true, s
		}
		w.version = v.Version
	case errors.Is(err, ErrUnchanged) && w.version != "":
	default:
		w.lastErr = err
		return nil
	}
	w.lastErr = w.parseErr
	w.covered = w.receiving && w.since
	if w.parseErr != nil {
		return nil
	}
	for p := range w.waiting {
		if p.reads == w.reads {
			continue // it came when the read was under way
		}
		if p.after == Now {
			if p.after = w.state.Generation; w.state.Released {
				p.after--
			}
		}
		p.unread = false
	}
	return w.pass()
}

// learn takes the store's answer to a change by this process, and returns
// the waiters that pass.
func (w *watch) learn(version string, s State) (passing []*waiter) {
	if version == w.version && w.known {
		return nil
	}
	if s.age() <= w.state.age() {
		w.signalled = true // the gate was changed further, deleted or replaced: read it
		return nil
	}
	w.known, w.state, w.version, w.parseErr, w.lastErr = true, s, version, nil, nil
	w.overtaken = w.reading
	return w.pass()
}

// pass removes the waiters that may pass.
func (w *watch) pass() (passing []*waiter) {
	for p := range w.waiting {
		if w.admits(p) {
			passing = append(passing, p)
			delete(w.waiting, p)
		}
	}
	return passing
}

// listens takes whether signals are received from now on. Either way some may
// have been missed until now.
func (w *watch) listens(up bool) {
	w.receiving, w.since, w.covered = up, false, false
}

// reader decides when the gate is read next.
type reader struct {
	gates *Gates
	timer *time.Timer // wakes run

	interval time.Duration // between polls; 0 after a failure
	pollAt   time.Time     // the next poll
	calmAt   time.Time     // after a failure: neither waiters nor signals cause a read before
	wokenAt  time.Time     // when the last read for a signal began
	failures int           // in a row
}
