package gate

import (
	"context"
	"errors"
	"time"
)

const (
	// recheckInterval is how often unreadable gates without a watch are read
	// again, so that a repair is noticed without a caller.
	recheckInterval = 30 * time.Second

	// maxUnreadable bounds these reads, and how many such gates are remembered.
	maxUnreadable = 100

	// signalGrace is how long after the start of Run listening may fail before
	// that is reported: a first attempt may come too early.
	signalGrace = 10 * time.Second

	// sendingLasts is how long a failure to send signals is reported if no
	// other signal is sent.
	sendingLasts = 10 * time.Minute
)

// Unreadable returns the gates whose document could not be used when this
// process last read it: each Err wraps ErrCorrupt. It makes no request. While
// Run is running, they are read again at least every 30 seconds. At most 100
// gates are remembered.
func (g *Gates) Unreadable() map[string]Failure {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[string]Failure, len(g.unreadable))
	for gate, f := range g.unreadable {
		all[gate] = *f
	}
	return all
}

// noteDocument takes whether the document of a gate can be used: nil, or an
// error that wraps ErrCorrupt. The caller holds mu.
func (g *Gates) noteDocument(gate string, err error) {
	f := g.unreadable[gate]
	switch {
	case err == nil:
		delete(g.unreadable, gate)
		return
	case f == nil && len(g.unreadable) >= maxUnreadable:
		return
	case f == nil:
		f = &Failure{}
		g.unreadable[gate] = f
	}
	f.add(err)
}

// noteRead takes the result of a read that is not for a watch.
func (g *Gates) noteRead(gate string, corrupt error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.noteDocument(gate, corrupt)
}

// recheck reads unreadable gates until ctx ends.
func (g *Gates) recheck(ctx context.Context) {
	ticker := time.NewTicker(recheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			g.recheckOnce(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// recheckOnce reads the unreadable gates that no watch reads. It ends when the
// store fails, because further reads would fail too.
func (g *Gates) recheckOnce(ctx context.Context) {
	var gates []string
	g.mu.Lock()
	for gate := range g.unreadable {
		if g.watches[gate] == nil {
			gates = append(gates, gate)
		}
	}
	g.mu.Unlock()
	for _, gate := range gates {
		v, err := g.load(ctx, gate, "")
		if err != nil {
			return
		}
		_, corrupt := StateOf(gate, v)
		g.noteRead(gate, corrupt)
	}
}

// noteSending takes whether a signal was sent.
func (g *Gates) noteSending(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil || time.Since(g.sending.last) > sendingLasts {
		g.sending = Failure{}
	}
	if err != nil {
		g.sending.add(err)
	}
}

// errNotConnected stands for a cause that was not reported.
var errNotConnected = errors.New("no connection since the start")

// SignalFailures returns why this process does not receive signals, and why it
// could not send the last one. An Err of nil means that there is no failure, or
// no Signals. It makes no request.
//
// That signals are not received yet is no failure in the first ten seconds of
// Run, unless Listen has returned an error.
func (g *Gates) SignalFailures() (receiving, sending Failure) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.sending.last) <= sendingLasts {
		sending = g.sending
	}
	switch {
	case g.opt.Signals == nil, g.start == nil, g.receiving:
	case g.wasUp, g.cannotListen, time.Since(g.listening.Since) >= signalGrace:
		receiving = g.listening
	}
	return receiving, sending
}
