package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// listenAgain is how long after a failed attempt to listen another one is
// made: rights are sometimes given after the start.
const listenAgain = 5 * time.Minute

// Run watches the gates that are waited at and listens to signals, until ctx
// ends. Whoever still waits then hears ErrStopped. It returns nil when all of
// that has ended, and an error only when it has run before.
func (g *Gates) Run(ctx context.Context) error {
	g.mu.Lock()
	if g.running || g.stopped {
		g.mu.Unlock()
		return errors.New("the gates run already, or have run")
	}
	g.running = true
	g.mu.Unlock()

	var running sync.WaitGroup
	if g.opt.Signals == nil {
		g.opt.Log.InfoContext(ctx, "no signals are set up: gates are polled", "every", g.opt.PollOften.String())
	} else {
		running.Go(func() { g.listen(ctx) })
	}
	for ctx.Err() == nil {
		for _, w := range g.started() {
			running.Go(func() { w.run(ctx) })
		}
		select {
		case <-g.fresh:
		case <-ctx.Done():
		}
	}
	g.stop()
	running.Wait()
	return nil
}

// started takes over the watchers that were made since.
func (g *Gates) started() []*watcher {
	g.mu.Lock()
	defer g.mu.Unlock()
	starting := g.starting
	g.starting = nil
	return starting
}

// stop sends everybody away.
func (g *Gates) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running, g.stopped, g.starting = false, true, nil
	now := time.Now()
	for _, w := range g.watchers {
		w.end.Stop()
		for _, p := range w.waiting {
			w.sendAway(now, p)
		}
		w.waiting = nil
	}
}

// listen keeps listening, and says once that it cannot.
func (g *Gates) listen(ctx context.Context) {
	told := false
	for {
		err := g.opt.Signals.Listen(ctx, listener{g})
		news := listener{g}.listens(false)
		if ctx.Err() != nil {
			return
		}
		if err != nil && (news || !told) {
			told = true
			g.opt.Log.WarnContext(ctx, "signals cannot be heard: gates are polled, and a release may take as long as that to be seen",
				"every", g.opt.PollOften.String(), "error", err.Error())
		}
		timer := time.NewTimer(listenAgain)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// listener passes signals on to the watchers.
type listener struct{ g *Gates }

func (l listener) Up() {
	if l.listens(true) {
		l.g.opt.Log.Info("signals of gates are heard: gates are polled rarely", "every", l.g.opt.PollRarely.String())
	}
}

func (l listener) Down(why error) {
	if l.listens(false) {
		l.g.opt.Log.Warn("signals of gates are not heard for now: gates are polled, and a release may take as long as that to be seen",
			"every", l.g.opt.PollOften.String(), "error", fmt.Sprint(why))
	}
}

// listens tells all watchers whether signals are heard from now on, and
// reports whether that is news.
func (l listener) listens(up bool) (news bool) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	news = l.g.up != up || !l.g.listened
	l.g.up, l.g.listened = up, true
	now := time.Now()
	for _, w := range l.g.watchers {
		w.listens(up)
		w.plan(now)
	}
	return news
}

func (l listener) Heard(s Signal) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	now := time.Now()
	for _, w := range l.g.watchers {
		if s.Gate == "" || s.Gate == w.gate {
			w.heard(s)
			w.letPass(now)
			w.plan(now)
		}
	}
}
