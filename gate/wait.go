package gate

import (
	"context"
	"fmt"
	"time"
)

// MaxWait is the longest that one Wait lasts, because nothing that is called
// by HTTP may last longer. Whoever waits longer comes back.
const MaxWait = 200 * time.Second

// Waited is how a wait has ended.
type Waited struct {
	// Passed says that the waiter may go on. Otherwise its time was over.
	Passed bool

	// Generation is what this waiter has seen. To wait on, or for the next
	// release, come back with it: no release can happen unseen in between.
	Generation int64

	// State is the newest that is known of the gate. It may be shut for one
	// who has passed: a release has happened, and the closing after it.
	State State
}

// Wait waits at a gate until it may be passed, at most for limit, which is at
// most MaxWait, and at most until ctx ends.
//
// A waiter who has seen generation after passes when a later one has been
// released, now or before, even if the gate has been shut since. A generation
// that the gate has not reached is waited for like any other. (If a gate was
// deleted and begun anew, or put back to what it once was, its generation is
// lower than one from before: whoever gets back a State.Generation lower than
// its own starts over with Now.)
//
// A waiter who has seen none gives Now, and passes when the gate is found
// released by a look that began after it came, or else with the next release.
//
// The error is nil when the waiter has passed, and when its time was over at a
// gate known to be shut. Else nobody passed: ErrUnknown and ErrCorrupt say that
// the last look at the gate has failed, and wrap why; ErrInvalid, ErrTooMany
// and ErrStopped that there was no waiting (any more); the end of ctx is its
// cause.
func (g *Gates) Wait(ctx context.Context, gate string, after int64, limit time.Duration) (Waited, error) {
	if err := CheckName(gate); err != nil {
		return Waited{}, err
	}
	if after < Now || after > MaxGeneration {
		return Waited{}, fmt.Errorf("%w: generation %d: give 0 to %d, or none", ErrInvalid, after, int64(MaxGeneration))
	}
	if limit <= 0 || limit > MaxWait {
		return Waited{}, fmt.Errorf("%w: a wait of %v: give more than 0, up to %v, and come back", ErrInvalid, limit, MaxWait)
	}
	p := &waiter{after: after, done: make(chan struct{})}
	w, err := g.arrive(gate, p, limit)
	if err != nil {
		return Waited{}, fmt.Errorf("wait at gate %q: %w", gate, err)
	}
	var waited Waited
	select {
	case <-p.done: // a crowd that is released passes here without waiting for a lock
		waited, err = *p.waited, p.err
	case <-ctx.Done():
		waited, err = g.leave(w, p, context.Cause(ctx))
	}
	if err != nil {
		err = fmt.Errorf("wait at gate %q: %w", gate, err)
	}
	return waited, err
}

// arrive takes a waiter to the watcher of its gate, which is made if there is
// none.
func (g *Gates) arrive(gate string, p *waiter, limit time.Duration) (*watcher, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return nil, ErrStopped
	}
	w := g.watchers[gate]
	if w == nil {
		if len(g.watchers) >= maxWatched && !g.forgetOne() {
			return nil, fmt.Errorf("%w: there are waiters at %d", ErrTooMany, len(g.watchers))
		}
		w = newWatcher(g, gate)
		g.watchers[gate] = w
		g.starting = append(g.starting, w)
		select {
		case g.fresh <- struct{}{}:
		default:
		}
	}
	now := time.Now()
	if w.came(p) {
		w.admit(now, p)
		return w, nil
	}
	p.until = now.Add(limit)
	w.bound(now, p)
	w.plan(now)
	return w, nil
}

// forgetOne ends the watcher of the gate at which nobody has waited for
// longest, if there is one. Its caller holds mu.
func (g *Gates) forgetOne() bool {
	var idle *watcher
	for _, w := range g.watchers {
		if len(w.waiting) == 0 && (idle == nil || w.used.Before(idle.used)) {
			idle = w
		}
	}
	if idle == nil {
		return false
	}
	delete(g.watchers, idle.gate)
	idle.plan(time.Now())
	return true
}

// leave ends a wait whose caller has gone. How it has ended before has
// precedence.
func (g *Gates) leave(w *watcher, p *waiter, why error) (Waited, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.waited != nil {
		return *p.waited, p.err
	}
	w.left(p)
	w.used = time.Now()
	if w.trouble != nil {
		why = fmt.Errorf("%w; the last look at the gate: %w", why, w.trouble)
	}
	return w.unpassed(p), why
}

// Known returns what the watcher of a gate knows, without asking anybody, and
// whether it knows anything: only gates that are or lately were waited at are
// watched. It is for those who come by all the time. Closing becomes known
// with its signal, or with the next poll.
func (g *Gates) Known(gate string) (State, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.watchers[gate]
	if w == nil || g.stopped || !w.known || w.trouble != nil {
		return State{}, false
	}
	w.used = time.Now()
	return w.state, true
}

// Watched is what this process knows of a gate that it watches.
type Watched struct {
	State   State  `json:"state"`
	Waiting int    `json:"waiting"`           // waiters
	Signals bool   `json:"signals"`           // are heard, so that it polls rarely
	Trouble string `json:"trouble,omitempty"` // what the last look has met
}

// Hears says whether signals are heard now, so that gates are polled rarely.
func (g *Gates) Hears() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.up
}

// Watched returns the gates that are watched now, without their histories.
func (g *Gates) Watched() map[string]Watched {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[string]Watched)
	for name, w := range g.watchers {
		of := Watched{State: w.state, Waiting: len(w.waiting), Signals: w.covered}
		of.State.History = nil
		if w.trouble != nil {
			of.Trouble = w.trouble.Error()
		}
		all[name] = of
	}
	return all
}
