package gate

import (
	"context"
	"errors"
	"time"
)

// betweenSignals is the least time between two reads of a gate for signals. A
// flood of signals is no flood of reads.
const betweenSignals = 250 * time.Millisecond

// newWatch makes the watch of a gate, which Run starts if it is not running
// yet. Its caller holds mu.
func (g *Gates) newWatch(gate string) *watch {
	w := &watch{
		gate: gate, waiting: make(map[*waiter]struct{}), state: State{Gate: gate}, receiving: g.receiving,
		reader: reader{gates: g, timer: time.NewTimer(MaxWait), pollAt: time.Now()},
	}
	g.watches[gate] = w
	if g.start != nil {
		g.start(w)
	}
	return w
}

// run reads the gate whenever that is due. Without waiters it ends instead:
// then a waiter that comes back soon finds what is known of the gate, and one
// that comes late causes a read.
func (w *watch) run(ctx context.Context) {
	defer w.timer.Stop()
	for {
		select {
		case <-w.timer.C:
			if w.gates.forgetIdle(w) {
				return
			}
			w.read(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// forgetIdle ends a watch without waiters, and reports whether it has ended.
func (g *Gates) forgetIdle(w *watch) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(w.waiting) == 0 && g.watches[w.gate] == w {
		delete(g.watches, w.gate)
	}
	return g.watches[w.gate] != w
}

// evictIdle makes room for another watch, if there is one without waiters. Its
// caller holds mu.
func (g *Gates) evictIdle() {
	for name, w := range g.watches {
		if len(w.waiting) == 0 {
			delete(g.watches, name)
			w.plan(time.Now())
			return
		}
	}
}

// read reads the gate and admits the waiters that may pass.
func (w *watch) read(ctx context.Context) {
	g := w.gates
	began := time.Now()
	g.mu.Lock()
	if w.signalled {
		w.wokenAt = began
	}
	seen, before, last := w.begin(), w.lastErr, w.state
	g.mu.Unlock()

	v, err := g.load(ctx, w.gate, seen)
	if err != nil && ctx.Err() != nil {
		return // this process is stopping; the gate is not the cause
	}

	g.mu.Lock()
	g.admit(w, w.afterRead(v, err))
	if w.lastErr == nil || errors.Is(w.lastErr, ErrCorrupt) {
		g.noteDocument(w.gate, w.lastErr)
	}
	w.schedule(began, time.Now())
	w.plan(time.Now())
	after, state := w.lastErr, w.state
	g.mu.Unlock()

	log := g.opt.Log.With("gate", w.gate)
	switch {
	case after != nil && (before == nil || errors.Is(before, ErrCorrupt) != errors.Is(after, ErrCorrupt)):
		log.WarnContext(ctx, "cannot read a gate; it counts as closed", "error", after.Error())
	case after == nil && before != nil:
		log.InfoContext(ctx, "gate can be read again")
	}
	if state.Generation < last.Generation {
		log.WarnContext(ctx, "gate generation went down: its blob was deleted, restored or replaced by force",
			"from", last.Generation, "to", state.Generation)
	}
}

// admit lets waiters pass. Its caller holds mu.
func (g *Gates) admit(w *watch, passing []*waiter) {
	if len(passing) == 0 {
		return // the usual case
	}
	waited := &Waited{Passed: true, Generation: w.state.Generation, State: w.state}
	for _, p := range passing {
		p.waited = waited
		close(p.done)
	}
}

// schedule sets the time of the next poll after a read. The first poll of an
// interval comes at a random time within it, so that processes that begin
// together do not poll together; later ones differ by up to a tenth.
func (w *watch) schedule(began, now time.Time) {
	g := w.gates
	if w.lastErr != nil && !errors.Is(w.lastErr, ErrCorrupt) {
		w.failures++
		w.interval = 0
		w.pollAt = now.Add(g.jitter(min(g.opt.PollOften<<min(w.failures, 2), g.opt.PollRarely)))
		w.calmAt = now.Add(g.jitter(min(g.opt.PollOften<<min(w.failures-1, 1), g.opt.PollRarely)))
		return
	}
	w.failures, w.calmAt = 0, time.Time{}
	interval := g.opt.PollOften
	if w.covered {
		interval = g.opt.PollRarely
	}
	switch {
	case w.interval != interval:
		w.interval, w.pollAt = interval, now.Add(g.jitter(interval))
	case !w.pollAt.After(now):
		w.pollAt = began.Add(interval*9/10 + g.jitter(interval/5))
	}
}

// pollSooner brings the next poll forward when signals are no longer received.
func (w *watch) pollSooner(now time.Time) {
	often := w.gates.opt.PollOften
	if w.interval > often {
		w.interval = often
		w.pollAt = now.Add(min(w.pollAt.Sub(now), w.gates.jitter(often)))
	}
}

// plan sets the timer to the next read. Every caller of a method that may
// bring it forward calls plan then, holding Gates.mu: that wakes no goroutine,
// which counts when a crowd is released.
func (w *watch) plan(now time.Time) {
	if w.reading {
		return // read plans when it is answered
	}
	wait, calm := w.pollAt.Sub(now), w.calmAt.Sub(now)
	if w.wanted {
		wait = min(wait, calm)
	}
	if w.signalled {
		wait = min(wait, max(calm, betweenSignals-now.Sub(w.wokenAt)))
	}
	if w.gates.watches[w.gate] != w {
		wait = 0 // it was evicted: end run
	}
	w.timer.Reset(wait)
}
