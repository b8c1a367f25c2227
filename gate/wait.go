package gate

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Wait waits at a gate until it may be passed, at most for limit, which is at
// most MaxWait, and at most until ctx ends.
//
// A waiter that has seen generation after passes when the generation in the
// store is greater, even if the gate was closed since. If it is lower,
// because the gate was deleted, restored or replaced by force, the waiter
// passes with the next release.
//
// A waiter that has seen no generation passes Now. It is admitted when a read
// that begins after the call finds the gate released, or else with the next
// release.
//
// The error is nil if the waiter passed, and if its time was over at a gate
// that is known to be closed. Otherwise it did not pass: ErrUnknown and
// ErrCorrupt report that the last read of the gate failed, and wrap why;
// ErrInvalid, ErrTooMany and ErrStopped that there was no waiting, or that it
// ended; the end of ctx is its cause.
func (g *Gates) Wait(ctx context.Context, gate string, after int64, limit time.Duration) (Waited, error) {
	if err := CheckName(gate); err != nil {
		return Waited{}, err
	}
	if after < Now || after > MaxGeneration {
		return Waited{}, invalid("generation %d: use 0 to %d, or none", after, int64(MaxGeneration))
	}
	if limit <= 0 || limit > MaxWait {
		return Waited{}, invalid("a wait of %v: use more than 0, up to %v, and wait again", limit, MaxWait)
	}
	p := &waiter{after: after, done: make(chan struct{})}
	w, err := g.arrive(gate, p)
	if err != nil {
		return Waited{}, fmt.Errorf("wait at gate %q: %w", gate, err)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done: // a released crowd passes here without waiting for a lock
	case <-timer.C:
		g.leave(w, p, nil)
	case <-ctx.Done():
		g.leave(w, p, context.Cause(ctx))
	}
	if p.err != nil {
		return *p.waited, fmt.Errorf("wait at gate %q: %w", gate, p.err)
	}
	return *p.waited, nil
}

// arrive adds a waiter to the watch of its gate, which is made if there is
// none.
func (g *Gates) arrive(gate string, p *waiter) (*watch, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return nil, ErrStopped
	}
	w := g.watches[gate]
	if w == nil {
		if len(g.watches) >= MaxWatched {
			g.evictIdle()
		}
		if len(g.watches) >= MaxWatched {
			return nil, fmt.Errorf("%w: there are waiters at %d", ErrTooMany, len(g.watches))
		}
		w = g.newWatch(gate)
	}
	if w.arrive(p) {
		g.admit(w, []*waiter{p})
	}
	w.plan(time.Now())
	return w, nil
}

// leave ends a wait that is over without a pass. If it has ended already, the
// former result stands. The result is decided here, under the lock: a release
// that becomes known later is for when the waiter comes back.
func (g *Gates) leave(w *watch, p *waiter, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.waited != nil {
		return
	}
	delete(w.waiting, p)
	switch {
	case why == nil:
		why = g.whyUnknown(w, p)
	case w.lastErr != nil:
		why = fmt.Errorf("%w; the last read of the gate: %w", why, w.lastErr)
	}
	p.waited, p.err = &Waited{Generation: p.after, State: w.state}, why
}

// whyUnknown is nil if the gate is known to be closed for this waiter. Its
// caller holds mu.
func (g *Gates) whyUnknown(w *watch, p *waiter) error {
	switch {
	case errors.Is(w.lastErr, ErrCorrupt):
		return w.lastErr
	case w.lastErr != nil:
		return fmt.Errorf("%w: %w", ErrUnknown, w.lastErr)
	case g.start == nil:
		return fmt.Errorf("%w: the gates are not running yet", ErrUnknown)
	case !w.known || p.unread:
		return fmt.Errorf("%w: the wait was over before a read that began after it", ErrUnknown)
	}
	return nil
}

// Last returns what the last read of a gate has shown, without its history and
// without a request. It returns false if this process has no waiters at the
// gate, or no read was answered yet. A read that fails changes nothing, but a
// gate whose document cannot be used counts as closed.
func (g *Gates) Last(gate string) (s State, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.watches[gate]
	if w == nil || !w.known && w.parseErr == nil {
		return State{}, false
	}
	s = w.state
	s.History, s.Released = nil, s.Released && w.parseErr == nil
	return s, true
}

// Watched is what this process knows of a gate at which it has waiters.
type Watched struct {
	State   State  `json:"state"`
	Waiting int    `json:"waiting"`         // waiters
	Signals bool   `json:"signals"`         // can be relied on, so that the gate is polled rarely
	Error   string `json:"error,omitempty"` // of the last read
}

// ReceivesSignals reports whether signals are received, so that gates are
// polled rarely.
func (g *Gates) ReceivesSignals() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.receiving
}

// Waited returns at how many gates this process has waiters.
func (g *Gates) Waited() (gates int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.watches {
		if len(w.waiting) > 0 {
			gates++
		}
	}
	return gates
}

// Watched returns the gates at which this process has waiters, without their
// histories.
func (g *Gates) Watched() map[string]Watched {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[string]Watched)
	for name, w := range g.watches {
		if len(w.waiting) == 0 {
			continue
		}
		of := Watched{State: w.state, Waiting: len(w.waiting), Signals: w.covered}
		of.State.History = nil
		if w.lastErr != nil {
			of.Error = w.lastErr.Error()
		}
		all[name] = of
	}
	return all
}
