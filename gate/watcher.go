package gate

import (
	"context"
	"errors"
	"time"
)

// watcher looks at one gate as long as somebody waits there. All its fields
// but those of New are guarded by Gates.mu.
type watcher struct {
	watch
	gates *Gates
	wake  chan struct{} // the watch has news; size 1

	pace   pace
	at     time.Time // of the next look
	wished wish      // what that was set for
	turned bool      // a look has ended since, or there was none yet
	used   time.Time // when somebody last passed, left or asked
}

func newWatcher(g *Gates, gate string) *watcher {
	return &watcher{
		watch:  watch{gate: gate, state: State{Gate: gate}, stored: State{Gate: gate}, up: g.up},
		gates:  g,
		wake:   make(chan struct{}, 1),
		pace:   newPace(g.opt.Instance, gate, g.opt.PollOften, g.opt.PollRarely),
		turned: true,
	}
}

// run looks whenever it is time to, until nobody has waited for a while.
func (w *watcher) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		wait, more := w.plan(time.Now())
		switch {
		case !more:
			return
		case wait <= 0:
			w.look(ctx)
		default:
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-w.wake:
			case <-ctx.Done():
			}
		}
	}
}

// plan says how long to sleep; zero is for a look. It reports false when the
// watcher is no longer needed, and is then none any more.
func (w *watcher) plan(now time.Time) (wait time.Duration, more bool) {
	w.gates.mu.Lock()
	defer w.gates.mu.Unlock()
	if wish := w.wish(); w.turned || wish != w.wished {
		// Between two looks news can bring the next one forward, never put it
		// off.
		if at := now.Add(w.pace.next(now, wish, w.failed)); w.turned || at.Before(w.at) {
			w.at = at
		}
		w.wished, w.turned = wish, false
	}
	wait = max(0, w.at.Sub(now))
	if len(w.waiting) == 0 {
		left := w.used.Add(w.gates.opt.Linger).Sub(now)
		if left <= 0 {
			delete(w.gates.watchers, w.gate)
			return 0, false
		}
		wait = min(wait, left)
	}
	return wait, true
}

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
	w.turned = true
	w.letPass()
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
func (w *watcher) letPass() {
	for _, p := range w.pass() {
		w.admit(p)
	}
}

// admit lets one pass. Its caller holds Gates.mu.
func (w *watcher) admit(p *waiter) {
	p.passed, p.saw = true, w.state
	close(p.done)
	w.used = time.Now()
}

// rouse makes run look at its plan again.
func (w *watcher) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
