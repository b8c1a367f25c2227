package ids

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

const (
	// returnPatience is how long a closing generator waits for others to return
	// the numbers above its own, counted from the last one that did.
	returnPatience = time.Second

	// returnPoll is the mean time between its reads.
	returnPoll = 150 * time.Millisecond

	// closeTimeout bounds the return of numbers of a sequence that is given up.
	closeTimeout = 10 * time.Second
)

// returnPatiently returns the unused numbers, and waits for others to return
// those above them.
func (g *Generator) returnPatiently(ctx context.Context, patience time.Duration) error {
	lowest, since := int64(1<<63-1), time.Now()
	for {
		left, err := g.returnUnused(ctx)
		if err != nil || !left || !g.claim.known {
			return err
		}
		if g.claim.next < lowest {
			lowest, since = g.claim.next, time.Now()
		}
		if time.Since(since) >= patience {
			return nil
		}
		select {
		case <-time.After(returnPoll/2 + g.jitter(returnPoll)):
		case <-ctx.Done():
			return nil
		}
		g.claim.known = false
	}
}

// returnUnused lowers the stored number as long as the numbers directly before
// it are available here. It stops if a caller waits. It reports whether numbers
// are left, with others above them. The caller owns the claim.
func (g *Generator) returnUnused(ctx context.Context) (left bool, err error) {
	read := false
	for {
		r, keep, left, ok := g.takeLast()
		switch {
		case ok:
			if err := g.sendBack(ctx, r, keep); err != nil {
				return true, err
			}
			continue
		case !left || read && g.claim.known:
			return left, nil
		}
		g.claim.known, read = false, true
		if err := g.sendOnce(ctx, request{}); err != nil {
			return true, err
		}
	}
}

// takeLast takes the available numbers that end directly before the stored
// number, without those that were issued before and taken back. keep is one past
// the highest number that this generator then keeps, and left reports whether
// others are available that can go back.
func (g *Generator) takeLast() (r Range, keep int64, left, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting > 0 || len(g.leases) > 0 {
		return Range{}, 0, false, false
	}
	g.shutWindow()
	if g.claim.known && g.claim.pending == nil {
		for i, run := range g.ready {
			if run.Last+1 == g.claim.next && run.Last > g.lastUsed {
				r, ok = Range{First: max(run.First, g.lastUsed+1), Last: run.Last}, true
				if g.ready[i].Last = r.First - 1; g.ready[i].Count() == 0 {
					g.ready = slices.Delete(g.ready, i, i+1)
				}
				break
			}
		}
	}
	keep = g.lastUsed + 1
	for _, run := range g.ready {
		keep = max(keep, run.Last+1)
		left = left || run.Last > g.lastUsed
	}
	return r, keep, left, ok
}

// sendBack returns r. If it is not known whether the write was applied, the
// numbers are lost; the next reservation continues with the write.
func (g *Generator) sendBack(ctx context.Context, r Range, keep int64) error {
	g.mu.Lock()
	g.lost += r.Count()
	g.mu.Unlock()
	before := g.claim.own.serial
	give := g.claim.giveBack(r, keep)
	if give == nil {
		return nil
	}
	err := g.sendOnce(ctx, request{write: give})
	if err != nil && !errors.Is(err, ErrRefused) && ctx.Err() == nil {
		err = g.sendOnce(ctx, request{write: give}) // unchanged
	}
	if err == nil && !g.claim.known {
		err = g.sendOnce(ctx, request{}) // whose write it was that came first
	}
	if err == nil && g.claim.pending == nil && g.claim.hist.of(g.claim.id()) == before {
		// It was not applied and never will be: the numbers are still ours. If
		// the history does not reach back to it, they are lost.
		g.mu.Lock()
		defer g.mu.Unlock()
		g.lost -= r.Count()
		g.ready = append(g.ready, r)
		slices.SortFunc(g.ready, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	}
	return err
}

// returnIdle returns the unused numbers of a generator that no caller uses, and
// reports whether some are left.
func (g *Generator) returnIdle() (left bool) {
	g.mu.Lock()
	if g.filling || g.closed || g.stopping || g.waiting > 0 {
		g.mu.Unlock()
		return false
	}
	g.filling = true
	filling, cancel := context.WithCancel(context.Background())
	g.abort = cancel
	done := make(chan struct{})
	g.fills.Go(func() {
		defer cancel()
		returning, cancel := context.WithTimeout(filling, closeTimeout)
		left, _ = g.returnUnused(returning)
		cancel()
		close(done)
		g.mu.Lock()
		if g.filling = !g.closed && len(g.leases) > 0; !g.filling {
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		g.fill(filling) // callers came meanwhile
	})
	g.mu.Unlock()
	<-done
	return left
}
