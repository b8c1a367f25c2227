package ids

import (
	"context"
	"errors"
	"fmt"
)

// Close ends the generator and gives the numbers that it reserved and did not
// issue back to the store, as far as nobody has reserved since. It waits for a
// request in flight until ctx ends. Numbers that cannot be given back are
// burnt, which is not an error; that the store could not be asked is.
//
// Next and Lease fail with ErrClosed from here on. Closing again does nothing.
func (g *Generator) Close(ctx context.Context) error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	g.shutWindow()
	for _, l := range g.leases {
		l.err, l.done = ErrClosed, true
	}
	g.leases = nil
	g.wake(ErrClosed)
	abort := g.abort
	g.mu.Unlock()

	close(g.stop)
	if abort != nil {
		done := context.AfterFunc(ctx, abort)
		g.fills.Wait()
		done()
	}

	// Nobody else touches the claim from here on.
	var back int64
	err := g.settle(ctx)
	if err == nil {
		back, err = g.giveBack(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.ready {
		g.burnt += r.Count()
	}
	g.ready = nil
	g.burnt -= back
	g.returned += back
	if err != nil {
		return fmt.Errorf("give unused numbers of sequence %q back: %w", g.sequence, err)
	}
	return nil
}

// settle finds out whether a write arrived whose reply was lost, so that its
// numbers can be given back too.
func (g *Generator) settle(ctx context.Context) error {
	if g.claim.pending == nil {
		return nil
	}
	outcome, r, err := g.send(ctx, request{})
	switch {
	case err != nil:
		return err
	case outcome == unclear:
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.lastError
	case outcome == reserved:
		g.mu.Lock()
		defer g.mu.Unlock()
		g.reserved += r.Count()
		g.ready = append(g.ready, r)
	}
	// If it is still on its way, it and the giving back are conditional on the
	// same version: one of them will be refused, and we issue nothing of it.
	g.claim.pending = nil
	return nil
}

// giveBack moves the stored number back to the first of the numbers in hand
// that end exactly there, and returns how many those are. It is conditional on
// our own last write: when somebody has reserved since, the store refuses.
func (g *Generator) giveBack(ctx context.Context) (int64, error) {
	if !g.claim.known || g.claim.held.Version == "" {
		return 0, nil
	}
	end := g.claim.next
	first := end
	for i := len(g.ready) - 1; i >= 0 && g.ready[i].Last == first-1; i-- {
		first = g.ready[i].First
	}
	if first == end {
		return 0, nil
	}
	give := g.claim.giveBack(first)
	ctx, cancel := context.WithTimeout(ctx, g.opt.CallTimeout)
	defer cancel()
	g.counts.writes.Add(1)
	_, err := g.store.Replace(ctx, g.sequence, give.old, give.next)
	switch {
	case errors.Is(err, ErrChanged):
		g.counts.conflicts.Add(1)
		return 0, nil // others have reserved since: our numbers lie in the middle and are lost
	case err != nil:
		g.counts.failures.Add(1)
		return 0, err // perhaps given back, perhaps not: we issue none of them either way
	}
	return end - first, nil
}
