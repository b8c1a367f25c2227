package ids

import (
	"context"
	"errors"
	"time"
)

// send makes one request to the store and passes the answer to the claim. Its
// error is one that a retry does not cure.
func (g *Generator) send(ctx context.Context, req request) (verdict, Range, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opt.CallTimeout)
	defer cancel()
	var m Mark
	var err error
	switch {
	case req.reports:
		// It is no request to the store of the sequence.
		var since time.Time
		if held := g.claim.held; held.Copied {
			if g.copied != held.Version {
				g.copied, g.copiedAt = held.Version, time.Now()
			}
			since = g.copiedAt
		}
		all, err := g.reports.of(ctx, g.sequence, since)
		return again, Range{}, g.claim.reported(all, err)
	case req.remember:
		g.counts.writes.Add(1)
		err = g.store.Remember(ctx, g.sequence)
	case req.write != nil:
		g.counts.writes.Add(1)
		m, err = replace(ctx, g.store, g.sequence, req.write.old, req.write.next)
		if errors.Is(err, ErrChanged) {
			g.counts.conflicts.Add(1)
		}
	default:
		g.counts.loads.Add(1)
		m, err = load(ctx, g.store, g.sequence)
	}
	if err != nil && !errors.Is(err, ErrChanged) && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrMissing) {
		g.counts.failures.Add(1)
		g.mu.Lock()
		g.lastError, g.lastErrorAt = err, time.Now()
		g.mu.Unlock()
	}
	before := g.claim.hist.cut
	issued := g.claim.own.serial > 0
	outcome, r, fatal := g.take(req, m, err)
	if isUnusable(fatal) || issued && g.claim.hist.cut != before {
		g.mu.Lock()
		g.era++
		g.mu.Unlock()
	}
	if outcome == reserved || outcome == returned {
		g.mu.Lock()
		g.place, g.lookedAt = g.claim.own, time.Now()
		g.mu.Unlock()
	}
	if fatal == nil && outcome == unclear && errors.Is(err, ErrRefused) {
		fatal = err // the claim continues with the same write next time
	}
	return outcome, r, fatal
}

// take passes the store's answer to the claim.
func (g *Generator) take(req request, m Mark, err error) (verdict, Range, error) {
	switch {
	case req.remember:
		return g.claim.stored(err)
	case req.write != nil:
		return g.claim.replaced(m, err)
	default:
		return g.claim.loaded(m, err)
	}
}

// sendOnce sends one request, and takes what a write has done whose reply was
// lost before: one that reserved numbers, or one that returned them.
func (g *Generator) sendOnce(ctx context.Context, req request) error {
	outcome, r, err := g.send(ctx, req)
	switch {
	case err != nil:
		return err
	case outcome == unclear:
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.lastError
	case outcome == reserved:
		g.add(r)
	case outcome == returned:
		g.hasReturned(r)
	}
	return nil
}

// hasReturned counts numbers that went back, which were counted as lost.
func (g *Generator) hasReturned(r Range) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost -= r.Count()
	g.returned += r.Count()
	g.highest = min(g.highest, g.claim.own.end-1)
}

// add adds a range to those that giveBack may return.
func (g *Generator) add(r Range) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reserved += r.Count()
	g.highest = max(g.highest, r.Last)
	g.ready = append(g.ready, r)
}
