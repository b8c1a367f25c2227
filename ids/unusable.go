package ids

import (
	"context"
	"errors"
	"time"
)

// Unusable is a sequence of which no number is issued until an operator repairs
// the stored number.
type Unusable struct {
	Sequence string
	Err      error     // wraps ErrCorrupt or ErrMissing
	Since    time.Time // when this process found it
	Count    int64     // how often a reservation has failed since
}

// found takes an error that ended a reservation. The caller holds mu.
func (g *Generator) found(err error) {
	if g.unusable == nil {
		g.unusable = &Unusable{Sequence: g.sequence, Since: time.Now()}
	}
	g.unusable.Err = err
	g.unusable.Count++
}

// recheck reads the stored number again and judges it as the next reservation
// will. It returns an error of the store.
func (g *Generator) recheck(ctx context.Context) error {
	g.mu.Lock()
	if g.filling || g.closed {
		g.mu.Unlock()
		return nil // the filler finds out
	}
	judge := g.claim // a copy: the next reservation reads the store itself
	judge.begin()
	judge.known, judge.pending, judge.owed = false, nil, nil
	g.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, g.opt.CallTimeout)
	defer cancel()
	var unusable, err error
	for unusable == nil && err == nil {
		req, end := judge.request(1, 1)
		if end != nil || req.write != nil {
			break // the next reservation can send it
		}
		if req.reports {
			unusable = judge.reported(g.reports.of(ctx, g.sequence, time.Time{}))
			continue
		}
		g.counts.loads.Add(1)
		var m Mark
		m, err = load(ctx, g.store, g.sequence)
		var outcome verdict
		if outcome, _, unusable = judge.loaded(m, err); outcome != unclear {
			err = nil
		}
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case unusable == nil && err != nil:
		return err
	case g.filling || g.unusable == nil:
	case unusable != nil:
		g.unusable.Err = unusable
	default:
		g.unusable, g.problem = nil, nil
	}
	return nil
}

// isUnusable reports whether err ends reservations until a repair.
func isUnusable(err error) bool { return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrMissing) }
