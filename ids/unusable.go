package ids

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	// recheckInterval is how often the stored numbers of unusable sequences are
	// read again, so that a repair is noticed without a caller.
	recheckInterval = 30 * time.Second

	// maxRechecks bounds these reads in one interval.
	maxRechecks = 100
)

// Unusable is a sequence of which no number is issued until an operator repairs
// what is stored.
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

// Unusable returns the sequences in use that this process found unusable, in no
// particular order. It makes no request. While Run is running, they are read
// again every 30 seconds.
func (s *Set) Unusable() []Unusable {
	var all []Unusable
	for _, g := range s.all() {
		g.mu.Lock()
		if g.unusable != nil {
			all = append(all, *g.unusable)
		}
		g.mu.Unlock()
	}
	return all
}

// all returns the generators, the most recently used first.
func (s *Set) all() []*Generator {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Generator, 0, len(s.generators))
	for at := s.byUse.Front(); at != nil; at = at.Next() {
		all = append(all, at.Value.(*member).Generator)
	}
	return all
}

// recheck reads unusable sequences again, in a random order. It ends when the
// store fails, because further reads would fail too.
func (s *Set) recheck(ctx context.Context) {
	var broken []*Generator
	for _, g := range s.all() {
		g.mu.Lock()
		if g.unusable != nil {
			broken = append(broken, g)
		}
		g.mu.Unlock()
	}
	rand.Shuffle(len(broken), func(i, j int) { broken[i], broken[j] = broken[j], broken[i] })
	for _, g := range broken[:min(len(broken), maxRechecks)] {
		if err := g.recheck(ctx); err != nil {
			return
		}
	}
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

// NearEnd returns the sequences of which this process has reserved numbers from
// the last hundredth, or of which none is left, with the last number reserved.
func (s *Set) NearEnd() map[string]int64 {
	near := make(map[string]int64)
	for _, g := range s.all() {
		g.mu.Lock()
		if last := g.opt.Last; g.usedUp {
			near[g.sequence] = last
		} else if g.highest > last-last/100 {
			near[g.sequence] = g.highest
		}
		g.mu.Unlock()
	}
	return near
}

// Len returns how many sequences are in use. Their maximum is MaxSequences.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.generators)
}

// isUnusable reports whether err ends reservations until a repair.
func isUnusable(err error) bool { return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrMissing) }
