package ids

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Waits before another try. Each wait is random, from zero to a bound that
// grows (full jitter).
//
// A node that lost a race competes with many others, and they have to spread
// out. The more they are, the longer the store takes to answer. The first bound
// is therefore a multiple of the answer time. It grows fast: of 1,000 nodes
// that start at once, the unluckiest then makes 26 requests instead of 36. A
// failing store is tried again soon.
const (
	raceFactor    = 2 // times the answer time, for the first lost race
	raceGrowth    = 4
	maxRaceWait   = 30 * time.Second
	outageGrowth  = 2
	maxOutageWait = 5 * time.Second
	minWait       = 50 * time.Millisecond
)

var errStopping = errors.New("the generator is closing")

// startFilling starts the filler, unless one runs. The caller holds mu.
func (g *Generator) startFilling() {
	if g.filling || g.closed {
		return
	}
	g.filling = true
	ctx, cancel := context.WithCancel(context.Background())
	g.abort = cancel
	g.fills.Go(func() {
		defer cancel()
		g.fill(ctx)
	})
}

// fill reserves until no range is missing. One filler runs at a time, so ranges
// arrive in order and a node never competes with itself.
func (g *Generator) fill(ctx context.Context) {
	for {
		r, err := g.reserve(ctx)
		g.mu.Lock()
		if err == nil {
			g.arrived(r)
		} else if !errors.Is(err, errStopping) {
			g.refused(err)
		}
		if !g.wanted() || g.closed {
			g.filling = false
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
	}
}

// wanted reports whether a range is missing. The caller holds mu.
func (g *Generator) wanted() bool { return g.low || len(g.leases) > 0 }

// arrived gives a reserved range to the waiting leases first, then to all
// callers. The caller holds mu.
func (g *Generator) arrived(r Range) {
	g.lastError, g.problem = nil, nil
	g.reserved += r.Count()
	g.dropBelowFloor()
	for len(g.leases) > 0 && g.leases[0].n <= r.Count() {
		l := g.leases[0]
		l.got, l.done = r.take(l.n), true
		g.issued += l.n
		g.leases = g.leases[1:]
	}
	if r.Count() > 0 {
		g.pace.size = r.Count()
		g.ready = append(g.ready, r)
		g.low = false
	}
	g.wake(nil)
}

// refused ends the waits with an error of the sequence itself. The caller holds
// mu.
func (g *Generator) refused(err error) {
	err = fmt.Errorf("reserve numbers of sequence %q: %w", g.sequence, err)
	if len(g.leases) > 0 && errors.Is(err, ErrExhausted) {
		// Too few numbers for this lease may be enough for others.
		l := g.leases[0]
		l.err, l.done = err, true
		g.leases = g.leases[1:]
		g.wake(nil)
		return
	}
	g.problem = err
	for _, l := range g.leases {
		l.err, l.done = err, true
	}
	g.leases = nil
	g.low = false // the next caller that finds no number starts a filler again
	g.wake(err)
}

func (g *Generator) dropLease(l *lease) {
	g.leases = slices.DeleteFunc(g.leases, func(other *lease) bool { return other == l })
}

// dropBelowFloor gives up the available ranges that end below the stored floor.
// The filler calls it and holds mu.
func (g *Generator) dropBelowFloor() {
	if g.claim.floor == 0 {
		return
	}
	g.shutWindow()
	g.ready = slices.DeleteFunc(g.ready, func(r Range) bool {
		if r.Last >= g.claim.floor {
			return false
		}
		g.lost += r.Count()
		return true
	})
}

// reserve reserves one range. It tries until it succeeds, no range is missing
// or the generator closes.
func (g *Generator) reserve(ctx context.Context) (Range, error) {
	g.claim.begin()
	racesLost := 0
	race := backoff{growth: raceGrowth, max: maxRaceWait}
	outage := backoff{growth: outageGrowth, max: maxOutageWait}
	for {
		want, need, ok := g.sizes(racesLost)
		if !ok {
			return Range{}, errStopping
		}
		req, err := g.claim.request(want, need)
		if err != nil {
			return Range{}, err
		}
		sent := time.Now()
		outcome, r, err := g.send(ctx, req)
		switch {
		case err != nil:
			return Range{}, err
		case outcome == reserved:
			return r, nil
		case outcome == lostRace:
			racesLost++
			err = g.pause(ctx, race.next(raceFactor*time.Since(sent)))
		case outcome == unclear:
			err = g.pause(ctx, outage.next(minWait))
		}
		if err != nil {
			return Range{}, err
		}
	}
}

// sizes returns how many numbers to reserve, and how many of them must be
// consecutive. It returns false if no range is missing or the generator is
// closing.
func (g *Generator) sizes(racesLost int) (want, need int64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || !g.wanted() {
		return 0, 0, false
	}
	need = 1
	if g.low {
		want = g.pace.next(racesLost)
	}
	if len(g.leases) > 0 {
		need = g.leases[0].n
		want += need
	}
	return want, need, true
}

// send makes one request to the store and passes the answer to the claim.
func (g *Generator) send(ctx context.Context, req request) (verdict, Range, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opt.CallTimeout)
	defer cancel()
	var m Mark
	var err error
	if req.write == nil {
		g.counts.loads.Add(1)
		m, err = g.store.Load(ctx, g.sequence)
	} else {
		g.counts.writes.Add(1)
		m, err = g.store.Replace(ctx, g.sequence, req.write.old, req.write.next)
		if errors.Is(err, ErrChanged) {
			g.counts.conflicts.Add(1)
		}
	}
	if err != nil && !errors.Is(err, ErrChanged) && !errors.Is(err, ErrNotFound) {
		g.counts.failures.Add(1)
		g.mu.Lock()
		g.lastError = err
		g.mu.Unlock()
	}
	if req.write == nil {
		return g.claim.loaded(m, err)
	}
	return g.claim.replaced(m, err)
}

// backoff is a bound that grows with each wait.
type backoff struct {
	growth time.Duration // a factor
	max    time.Duration
	bound  time.Duration
}

func (b *backoff) next(first time.Duration) time.Duration {
	if b.bound == 0 {
		b.bound = max(first, minWait)
	} else {
		b.bound *= b.growth
	}
	b.bound = min(b.bound, b.max)
	return b.bound
}

// pause waits for a random time below bound.
func (g *Generator) pause(ctx context.Context, bound time.Duration) error {
	timer := time.NewTimer(g.jitter(bound))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-g.stop:
		return errStopping
	case <-ctx.Done():
		return errStopping
	}
}
