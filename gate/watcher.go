package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// watcher looks at one gate as long as somebody waits there. All its fields
// but those of New are guarded by Gates.mu.
type watcher struct {
	watch
	gates *Gates
	timer *time.Timer // wakes run

	pace   pace
	at     time.Time // of the next look; zero until it is planned
	wished wish      // what that was planned for
	used   time.Time // when somebody last passed, left or asked

	end  *time.Timer // of the wait that ends first
	ends time.Time   // when that is; zero if nobody waits
}

func newWatcher(g *Gates, gate string) *watcher {
	w := &watcher{
		watch: watch{gate: gate, state: State{Gate: gate}, stored: State{Gate: gate}, up: g.up},
		gates: g,
		timer: time.NewTimer(MaxWait),
		pace:  newPace(g.opt.Instance, gate, g.opt.PollOften, g.opt.PollRarely),
	}
	w.end = time.AfterFunc(MaxWait, w.endWaits)
	return w
}

// run looks whenever it is time to, until nobody has waited for a while.
func (w *watcher) run(ctx context.Context) {
	defer w.timer.Stop()
	defer w.end.Stop()
	for {
		select {
		case <-w.timer.C:
		case <-ctx.Done():
			return
		}
		due, more := w.due(time.Now())
		if !more {
			return
		}
		if due {
			w.look(ctx)
		}
	}
}

// due says whether it is time to look. It reports false for more when the
// watcher is no longer needed, and is then none any more.
func (w *watcher) due(now time.Time) (due, more bool) {
	w.gates.mu.Lock()
	defer w.gates.mu.Unlock()
	switch {
	case w.forgotten():
		return false, false
	case len(w.waiting) == 0 && now.Sub(w.used) >= w.gates.opt.Linger:
		delete(w.gates.watchers, w.gate)
		return false, false
	case w.at.After(now):
		w.plan(now)
		return false, true
	}
	return true, true
}

// plan sets the timer to when run has something to do. Whoever brings news to
// the watcher calls it, holding Gates.mu: that wakes no goroutine, which counts
// when a crowd is released.
func (w *watcher) plan(now time.Time) {
	switch {
	case w.looking:
		return // whoever looks plans afterwards
	case w.forgotten():
		w.timer.Reset(0)
		return
	}
	anew := w.at.IsZero()
	if wish := w.wish(); anew || wish != w.wished {
		// Between two looks news can bring the next one forward, never put it
		// off.
		if at := now.Add(w.pace.next(now, wish, w.failed)); anew || at.Before(w.at) {
			w.at = at
		}
		w.wished = wish
	}
	wait := w.at.Sub(now)
	if len(w.waiting) == 0 {
		wait = min(wait, w.used.Add(w.gates.opt.Linger).Sub(now))
	}
	w.timer.Reset(wait)
}

// forgotten says that others took its place. Its caller holds Gates.mu.
func (w *watcher) forgotten() bool { return w.gates.watchers[w.gate] != w }

// look asks the store and lets those pass who may.
func (w *watcher) look(ctx context.Context) {
	w.gates.mu.Lock()
	seen := w.begin()
	w.gates.mu.Unlock()

	call, cancel := context.WithTimeout(ctx, w.gates.opt.CallTimeout)
	f, err := w.gates.store.Load(call, w.gate, seen)
	cancel()
	if err != nil && ctx.Err() != nil {
		return // we are stopping, and that says nothing about the gate
	}

	w.gates.mu.Lock()
	before := w.trouble
	back := w.looked(f, err)
	after, generation := w.trouble, w.state.Generation
	now := time.Now()
	w.letPass(now)
	w.at = time.Time{}
	w.plan(now)
	w.gates.mu.Unlock()

	log := w.gates.opt.Log.With("gate", w.gate)
	switch {
	case after != nil && (before == nil || errors.Is(before, ErrCorrupt) != errors.Is(after, ErrCorrupt)):
		log.WarnContext(ctx, "a gate cannot be read: it counts as shut until it can", "error", after.Error())
	case after == nil && before != nil:
		log.InfoContext(ctx, "a gate can be read again")
	}
	if back {
		log.WarnContext(ctx, "a gate has gone back: it was deleted, begun anew or put back, or a signal has told what was not so", "generation", generation)
	}
}

// letPass lets those pass who may. Its caller holds Gates.mu.
func (w *watcher) letPass(now time.Time) {
	if passing := w.pass(); len(passing) > 0 {
		w.admit(now, passing...)
	}
}

// admit lets some pass. Its caller holds Gates.mu.
func (w *watcher) admit(now time.Time, passing ...*waiter) {
	waited := &Waited{Passed: true, Generation: w.state.Generation, State: w.state}
	for _, p := range passing {
		p.waited = waited
		close(p.done)
	}
	w.used = now
}

// sendAway ends the wait of one who does not pass, and is not among the
// waiting any more. What is known now is the answer, even if more becomes known
// until the waiter runs: that is for when it comes back. Its caller holds
// Gates.mu.
func (w *watcher) sendAway(now time.Time, p *waiter) {
	waited := w.unpassed(p)
	p.waited, p.err = &waited, w.whySentAway(p)
	close(p.done)
	w.used = now
}

// whySentAway is nil when the gate is known to be shut. Its caller holds
// Gates.mu.
func (w *watcher) whySentAway(p *waiter) error {
	switch {
	case w.gates.stopped:
		return ErrStopped
	case errors.Is(w.trouble, ErrCorrupt):
		return w.trouble
	case w.trouble != nil:
		return fmt.Errorf("%w: %w", ErrUnknown, w.trouble)
	case !w.gates.running:
		return fmt.Errorf("%w: nobody looks, because the gates are not running yet", ErrUnknown)
	case !w.known || p.after == Now || p.ahead && p.after > w.state.Generation:
		return fmt.Errorf("%w: the wait was over before any look that began after it", ErrUnknown)
	}
	return nil
}

func (w *watcher) unpassed(p *waiter) Waited { return Waited{Generation: p.after, State: w.state} }

// bound sees to it that a wait ends when its time is over. One timer does it
// for all who wait: a thousand of them take as long to stop as to pass. Its
// caller holds Gates.mu.
func (w *watcher) bound(now time.Time, p *waiter) {
	if w.ends.IsZero() || p.until.Before(w.ends) {
		w.ends = p.until
		w.end.Reset(p.until.Sub(now))
	}
}

// endWaits sends those away whose time is over.
func (w *watcher) endWaits() {
	w.gates.mu.Lock()
	defer w.gates.mu.Unlock()
	now := time.Now()
	w.ends = time.Time{}
	w.waiting = slices.DeleteFunc(w.waiting, func(p *waiter) bool {
		if p.until.After(now) {
			w.bound(now, p)
			return false
		}
		w.sendAway(now, p)
		return true
	})
}
