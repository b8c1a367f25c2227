package gate

import (
	"cmp"
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
	var running sync.WaitGroup
	if !g.begin(func(w *watch) { running.Go(func() { w.run(ctx) }) }) {
		return errors.New("gate.Gates.Run was called twice")
	}
	if g.opt.Signals == nil {
		g.opt.Log.InfoContext(ctx, "no signals are set up; polling gates", "every", g.opt.PollOften.String())
	} else {
		running.Go(func() { g.listen(ctx) })
	}
	running.Go(func() { g.recheck(ctx) })
	<-ctx.Done()
	g.stop() // no watch starts after this
	running.Wait()
	return nil
}

// begin starts the watches that were made before Run. It reports false if Run
// was called before.
func (g *Gates) begin(start func(*watch)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.start != nil || g.stopped {
		return false
	}
	g.start = start
	g.listening = Failure{Err: errNotConnected, Since: time.Now()}
	for _, w := range g.watches {
		start(w)
	}
	return true
}

// stop rejects all waiters.
func (g *Gates) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.start, g.stopped = nil, true
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
		if ctx.Err() != nil {
			return
		}
		news := listener{g}.listens(false, err)
		g.mu.Lock()
		g.cannotListen = true
		g.mu.Unlock()
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
	if l.listens(true, nil) {
		l.g.opt.Log.Info("receiving gate signals; polling rarely", "every", l.g.opt.PollRarely.String())
	}
}

func (l listener) Down(why error) {
	if l.listens(false, why) {
		l.g.opt.Log.Warn("gate signals are interrupted; polling instead, so releases may be seen late",
			"every", l.g.opt.PollOften.String(), "error", fmt.Sprint(why))
	}
}

// listens passes on whether signals are received from now on, or else why not,
// and reports whether that is new.
func (l listener) listens(up bool, why error) (news bool) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	news = l.g.receiving != up || !l.g.listened
	l.g.receiving, l.g.listened = up, true
	if up {
		l.g.wasUp, l.g.cannotListen, l.g.listening = true, false, Failure{}
	} else {
		l.g.listening.add(cmp.Or(why, errNotConnected))
	}
	now := time.Now()
	for _, w := range l.g.watches {
		w.listens(up)
		w.pollSooner(now)
		w.plan(now)
	}
	return news
}

func (l listener) Received(s Signal) {
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
