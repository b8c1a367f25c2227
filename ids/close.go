package ids

import (
	"context"
	"errors"
	"fmt"
)

// stopWaits ends all waits with ErrClosed. Available numbers are still issued.
func (g *Generator) stopWaits() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopping = true
	g.endWaits()
}

// endWaits fails all callers that wait. The caller holds mu.
func (g *Generator) endWaits() {
	for _, l := range g.leases {
		l.err, l.done = ErrClosed, true
	}
	g.leases = nil
	g.wake(ErrClosed)
}

// needed reports whether a new generator cannot take the place of this one:
// callers wait, or only this one has seen that the stored number went down.
func (g *Generator) needed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting > 0 || g.unusable != nil && errors.Is(g.unusable.Err, ErrCorrupt)
}

// Close closes the generator and returns its unissued numbers to the store,
// unless another node reserved since. It waits for a request in flight until
// ctx ends. Numbers that cannot be returned are lost, which is not an error. A
// store that fails is one.
//
// Afterwards Next and Lease fail with ErrClosed. Closing again does nothing.
func (g *Generator) Close(ctx context.Context) error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	g.shutWindow()
	g.endWaits()
	abort := g.abort
	g.mu.Unlock()

	close(g.stop)
	if abort != nil {
		done := context.AfterFunc(ctx, abort)
		g.fills.Wait()
		done()
	}

	// No filler runs any more, so the claim is ours.
	var back int64
	err := g.settle(ctx)
	if err == nil {
		back, err = g.giveBack(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.ready {
		g.lost += r.Count()
	}
	g.ready = nil
	g.lost -= back
	g.returned += back
	if err != nil {
		return fmt.Errorf("return unused numbers of sequence %q: %w", g.sequence, err)
	}
	return nil
}

// settle reads whether a write with a lost reply was applied, so that its
// numbers can be returned too.
func (g *Generator) settle(ctx context.Context) error {
	if g.claim.pending != nil {
		outcome, r, err := g.send(ctx, request{})
		switch {
		case err != nil:
			return err
		case outcome == unclear:
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.lastError
		case outcome == reserved:
			g.add(r)
		}
	}
	// A write that is still in flight and giveBack are conditional on the same
	// version, so the store refuses one of them. None of its numbers is issued.
	g.claim.pending = nil
	if g.claim.owed != nil {
		g.add(*g.claim.owed)
		g.claim.owed = nil
	}
	return nil
}

// add adds a range to those that giveBack may return.
func (g *Generator) add(r Range) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reserved += r.Count()
	g.ready = append(g.ready, r)
}

// giveBack lowers the stored number to the first of the available numbers that
// end directly before it, and returns how many they are. The write is
// conditional on our own last write, so the store refuses it if another node
// reserved since.
func (g *Generator) giveBack(ctx context.Context) (int64, error) {
	end := g.claim.next
	first := end
	for i := len(g.ready) - 1; i >= 0 && g.ready[i].Last == first-1; i-- {
		first = g.ready[i].First
	}
	give := g.claim.giveBack(first)
	if give == nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, g.opt.CallTimeout)
	defer cancel()
	g.counts.writes.Add(1)
	_, err := g.store.Replace(ctx, g.sequence, give.old, give.next)
	switch {
	case errors.Is(err, ErrChanged):
		g.counts.conflicts.Add(1)
		return 0, nil // another node reserved since: our numbers are lost
	case err != nil:
		g.counts.failures.Add(1)
		return 0, err // they may have been returned; we issue none of them in either case
	}
	return end - first, nil
}
