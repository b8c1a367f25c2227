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

// Run watches the gates that have waiters and listens to signals, until ctx
// ends. Remaining waiters get ErrStopped. It returns nil when all of that has
// ended, and an error only if it was called before.
func (g *Gates) Run(ctx context.Context) error {
	g.mu.Lock()
	if g.running || g.stopped {
		g.mu.Unlock()
		return errors.New("gate.Gates.Run was called twice")
	}
	g.running = true
	g.mu.Unlock()

	var running sync.WaitGroup
	if g.opt.Signals == nil {
		g.opt.Log.InfoContext(ctx, "no signals are set up; polling gates", "every", g.opt.PollOften.String())
	} else {
		running.Go(func() { g.listen(ctx) })
	}
	for ctx.Err() == nil {
		for _, w := range g.takeStarting() {
			running.Go(func() { w.run(ctx) })
		}
		select {
		case <-g.wake:
		case <-ctx.Done():
		}
	}
	g.stop()
	running.Wait()
	return nil
}

// takeStarting returns the watches that were made since the last call.
func (g *Gates) takeStarting() []*watch {
	g.mu.Lock()
	defer g.mu.Unlock()
	starting := g.starting
	g.starting = nil
	return starting
}

// stop rejects all waiters.
func (g *Gates) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running, g.stopped, g.starting = false, true, nil
	for _, w := range g.watches {
		for p := range w.waiting {
			p.waited, p.err = &Waited{Generation: p.after, State: w.state}, ErrStopped
			close(p.done)
		}
		clear(w.waiting)
	}
}

// listen keeps listening, and logs once that this is not possible.
func (g *Gates) listen(ctx context.Context) {
	logged := false
	for {
		err := g.opt.Signals.Listen(ctx, listener{g})
		news := listener{g}.listens(false)
		if ctx.Err() != nil {
			return
		}
		if err != nil && (news || !logged) {
			logged = true
			g.opt.Log.WarnContext(ctx, "cannot receive gate signals; polling instead, so releases may be seen late",
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

// listener passes signals on to the watches.
type listener struct{ g *Gates }

func (l listener) Up() {
	if l.listens(true) {
		l.g.opt.Log.Info("receiving gate signals; polling rarely", "every", l.g.opt.PollRarely.String())
	}
}

func (l listener) Down(why error) {
	if l.listens(false) {
		l.g.opt.Log.Warn("gate signals are interrupted; polling instead, so releases may be seen late",
			"every", l.g.opt.PollOften.String(), "error", fmt.Sprint(why))
	}
}

// listens passes on whether signals are received from now on, and reports
// whether that is new.
func (l listener) listens(up bool) (news bool) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	news = l.g.receiving != up || !l.g.listened
	l.g.receiving, l.g.listened = up, true
	now := time.Now()
	for _, w := range l.g.watches {
		w.listens(up)
		w.pollSooner(now)
		w.plan(now)
	}
	return news
}

func (l listener) Heard(s Signal) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	now := time.Now()
	for _, w := range l.g.watches {
		if s.Gate == "" || s.Gate == w.gate {
			w.signalled = true
			w.plan(now)
		}
	}
}
