package ids

import (
	"context"
	"errors"
	"fmt"
	"time"
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

// Close closes the generator and returns its unissued numbers to the store. If
// other nodes have reserved above them, it waits until ctx ends, and as long as
// another one returned numbers within the last second. It waits for a request in
// flight until ctx ends. Numbers that cannot be returned are lost, which is not
// an error. A store that fails is one.
//
// Afterwards Next and Lease fail with ErrClosed. Closing again does nothing.
func (g *Generator) Close(ctx context.Context) error { return g.close(ctx, returnPatience) }

func (g *Generator) close(ctx context.Context, patience time.Duration) error {
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
	err := g.settle(ctx)
	if err == nil {
		err = g.returnPatiently(ctx, patience)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.ready {
		g.lost += r.Count()
	}
	g.ready = nil
	if err != nil {
		return fmt.Errorf("return unused numbers of sequence %q: %w", g.sequence, err)
	}
	return nil
}

// settle reads whether a write with a lost reply was applied, so that its
// numbers can be returned too.
func (g *Generator) settle(ctx context.Context) error {
	if g.claim.pending != nil {
		if err := g.sendOnce(ctx, request{}); err != nil {
			return err
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
