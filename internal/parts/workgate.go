package parts

import (
	"context"
	"errors"
	"sync"
	"time"

	"kennel/gate"
	"kennel/internal/table"
)

// gateUnused is how long after the last message or call that concerns it the
// work gate is watched.
const gateUnused = time.Minute

// workGate is the gate at which the work of batches is held, as [work.Gate]
// defines it. While it is in use, this process has a waiter there, so that the
// gate is polled and its signals are received; a closed gate is noticed as late
// as a poll.
type workGate struct {
	gates *gate.Gates
	name  string
	used  chan struct{} // something was asked since run last checked; size 1

	reading sync.Mutex // held during the read of a gate that is not watched yet

	mu      sync.Mutex
	open    bool          // for the listener of a worker; guarded by mu
	changed chan struct{} // closed when open changes; guarded by mu
}

func newWorkGate(gates *gate.Gates, name string) *workGate {
	return &workGate{gates: gates, name: name, used: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Opened implements [work.Gate].
func (g *workGate) Opened(ctx context.Context) (time.Time, error) {
	state, err := g.state(ctx)
	if err != nil || !state.Released {
		return time.Time{}, err
	}
	return state.ChangedAt, nil
}

// state returns the state of the gate, and has it watched.
func (g *workGate) state(ctx context.Context) (gate.State, error) {
	select {
	case g.used <- struct{}{}:
	default:
	}
	return g.read(ctx)
}

// isOpen reports whether the gate is known to be open. It does not have it
// watched, which costs more than a read from time to time.
func (g *workGate) isOpen(ctx context.Context) bool {
	state, err := g.read(ctx)
	return err == nil && state.Released
}

// read returns what is known of a gate that is watched, or what a read shows.
func (g *workGate) read(ctx context.Context) (gate.State, error) {
	if state, known := g.gates.Last(g.name); known {
		return state, nil
	}
	g.reading.Lock()
	defer g.reading.Unlock()
	if state, known := g.gates.Last(g.name); known {
		return state, nil
	}
	state, err := g.gates.State(ctx, g.name)
	if errors.Is(err, gate.ErrCorrupt) {
		return gate.State{}, nil // which counts as closed, and is a problem of its own
	}
	return state, err
}

// Wait implements [work.Gate]. A gate that cannot be read counts as closed, and
// so does every gate while the process is stopping: its messages are put back.
func (g *workGate) Wait(ctx context.Context, limit time.Duration) (open bool, err error) {
	state, err := g.state(ctx)
	if err != nil || state.Released {
		return err == nil, err
	}
	waited, err := g.gates.Wait(ctx, g.name, state.Generation, min(limit, gate.MaxWait))
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, gate.ErrUnknown), errors.Is(err, gate.ErrCorrupt), errors.Is(err, gate.ErrStopped):
		return false, nil
	}
	return waited.Passed, err
}

// Run watches the gate while it is in use, until ctx ends.
func (g *workGate) Run(ctx context.Context) {
	for {
		select {
		case <-g.used:
		case <-ctx.Done():
			return
		}
		seen := int64(gate.Now)
		if state, known := g.gates.Last(g.name); known {
			seen = state.Generation
		}
		began := time.Now()
		waited, err := g.gates.Wait(ctx, g.name, seen, gateUnused)
		if err == nil && waited.Passed {
			// It is watched on: the release may have been the last use.
			select {
			case g.used <- struct{}{}:
			default:
			}
		}
		if err != nil && time.Since(began) < time.Second {
			table.Pause(ctx, time.Second)
		}
	}
}

// followEvery is how often follow looks at what is known of an open gate.
const followEvery = time.Second

// follow keeps up to date what admit returns, until ctx ends.
func (g *workGate) follow(ctx context.Context) error {
	for isOpen := false; ctx.Err() == nil; {
		was := isOpen
		if isOpen {
			table.Pause(ctx, followEvery)
			if opened, err := g.Opened(ctx); err == nil {
				isOpen = !opened.IsZero()
			}
		} else {
			began := time.Now()
			var err error
			if isOpen, err = g.Wait(ctx, gate.MaxWait); !isOpen && (err != nil || time.Since(began) < followEvery) {
				table.Pause(ctx, followEvery)
			}
		}
		if isOpen != was {
			g.mu.Lock()
			g.open = isOpen
			close(g.changed)
			g.changed = make(chan struct{})
			g.mu.Unlock()
		}
	}
	return nil
}

// admit returns whether the gate is open, and a channel that is closed when
// that changes. Until its first read it counts as closed.
func (g *workGate) admit() (open bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open, g.changed
}
