package ids

import (
	"cmp"
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

	// refusalLasts is how long a refusal of the store is remembered: callers
	// that find no number get it as their answer, without a request.
	refusalLasts = time.Second

	// maxRuns bounds the runs of available numbers. More than two remain only
	// if other nodes reserve in between and all leases are longer than what
	// the last one left over, or if many callers give numbers back.
	maxRuns = 64
)

var errStopping = errors.New("the generator is closing")

// startFilling starts the filler, unless one runs or the store has just refused
// a request. The caller holds mu.
func (g *Generator) startFilling() {
	if g.filling || g.closed || time.Now().Before(g.refusedUntil) {
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
			g.failed(err)
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
	g.lastError, g.problem, g.unusable, g.usedUp, g.refusedUntil = nil, nil, nil, false, time.Time{}
	g.reserved += r.Count()
	g.highest = max(g.highest, r.Last)
	g.shutWindow()
	g.pace.ranged(time.Now(), g.nextSize, g.issued)
	if last := len(g.ready) - 1; last >= 0 && g.ready[last].Last == r.First-1 {
		g.ready[last].Last = r.Last
	} else {
		g.ready = append(g.ready, r)
	}
	// The range is large enough for the first lease, unless that came since.
	// Then this range serves the others, and the next one serves the first.
	g.leases = slices.DeleteFunc(g.leases, func(l *lease) bool {
		l.got, l.done = g.cut(l.n)
		return l.done
	})
	g.dropShortest()
	g.pace.sample(time.Now(), g.issued)
	g.low = false
	if !g.closed {
		g.openWindow()
	}
	g.wake(nil)
}

// dropShortest gives up the shortest run of available numbers if there are too
// many. The caller holds mu.
func (g *Generator) dropShortest() {
	if len(g.ready) <= maxRuns {
		return
	}
	shortest := slices.MinFunc(g.ready, func(a, b Range) int { return cmp.Compare(a.Count(), b.Count()) })
	g.lost += shortest.Count()
	g.ready = slices.DeleteFunc(g.ready, func(r Range) bool { return r == shortest })
}

// failed ends the waits that an error concerns. The caller holds mu.
func (g *Generator) failed(err error) {
	end, isEnd := errors.AsType[*exhausted](err)
	if isEnd {
		g.unusable = nil // the stored number was read
	}
	if isEnd && end.left > 0 {
		// Too few numbers for some leases are enough for other callers.
		g.leases = slices.DeleteFunc(g.leases, func(l *lease) bool {
			if l.n > end.left {
				l.err, l.done = g.explain(&exhausted{l.n, end.left, end.last}), true
			}
			return l.done
		})
		g.wake(nil)
		return
	}
	g.usedUp = isEnd
	if isUnusable(err) {
		g.found(err)
		g.giveUp() // another node may have reserved the same numbers
	}
	if errors.Is(err, ErrRefused) {
		g.refusedUntil = time.Now().Add(refusalLasts)
	}
	g.problem = g.explain(err)
	for _, l := range g.leases {
		l.err, l.done = g.problem, true
	}
	g.leases = nil
	g.low = false // the next caller that finds no number starts a filler again
	g.wake(g.problem)
}

func (g *Generator) explain(err error) error {
	return fmt.Errorf("reserve numbers of sequence %q: %w", g.sequence, err)
}

// giveUp gives up all available numbers. The caller holds mu.
func (g *Generator) giveUp() {
	g.era++
	g.shutWindow()
	for _, r := range g.ready {
		g.lost += r.Count()
	}
	g.ready = nil
}

// reserve reserves one range. It tries until it succeeds, the store refuses, no
// range is missing, the generator closes, or the store fails and no caller
// uses this generator.
func (g *Generator) reserve(ctx context.Context) (Range, error) {
	g.claim.begin()
	if time.Since(g.lookedAt) > 2*g.opt.RangeLasts {
		g.claim.suspect()
	}
	racesLost, failures := 0, 0
	race := backoff{growth: raceGrowth, max: maxRaceWait}
	outage := backoff{growth: outageGrowth, max: maxOutageWait}
	for {
		want, need, ok := g.sizes(racesLost, failures)
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
		case outcome == returned:
			g.hasReturned(r) // its reply was lost before
		case outcome == lostRace:
			racesLost++
			err = g.pause(ctx, race.next(raceFactor*time.Since(sent)))
		case outcome == unclear:
			failures++
			err = g.pause(ctx, outage.next(minWait))
		}
		if err != nil {
			return Range{}, err
		}
	}
}

// sizes returns how many numbers to reserve, and how many of them must be
// consecutive. It returns false if no range is missing, the generator is
// closing, or the store fails and no caller has needed a number since.
func (g *Generator) sizes(racesLost, failures int) (want, need int64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if failures > 0 && g.waiting == 0 && !g.called {
		g.low = false // the next caller starts a filler again
	}
	g.called = false
	if g.closed || !g.wanted() {
		return 0, 0, false
	}
	need = 1
	if len(g.leases) > 0 {
		need = g.leases[0].n
		for _, l := range g.leases {
			if l.n > 1 { // single numbers come from the next range
				want += l.n
			}
		}
		want = min(want, max(need, g.opt.MaxRangeSize))
	}
	// The size of a range that is on its way, or not issued yet, stays.
	if g.low && g.claim.pending == nil && g.claim.owed == nil {
		g.pace.hungry = len(g.leases) > 0
		g.nextSize = g.pace.next(time.Now(), g.issued+g.opened-unpack(g.word.Load()).Count(), racesLost)
		want += g.nextSize
	}
	return max(want, need), need, true
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
