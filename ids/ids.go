package ids

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"
)

// MaxLease is the largest number of numbers that one Lease returns.
const MaxLease = 1_000_000

var errNoStore = errors.New("new sequences: the store is nil")

// New returns a generator for a sequence. It does no I/O; the first Next does.
func New(store Store, sequence string, options *Options) (*Generator, error) {
	if store == nil {
		return nil, errNoStore
	}
	if err := CheckName(sequence); err != nil {
		return nil, err
	}
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return newGenerator(store, sequence, opt, newReports(opt.Reported)), nil
}

func newGenerator(store Store, sequence string, opt Options, r *reports) *Generator {
	g := &Generator{
		store:    store,
		sequence: sequence,
		opt:      opt,
		jitter:   mathrand.N[time.Duration],
		stop:     make(chan struct{}),
		reports:  r,
		claim:    claim{owner: rand.Text(), first: opt.First, last: opt.Last, asks: r != nil, doubt: r != nil},
		round:    &round{done: make(chan struct{})},
		pace:     pace{minSize: opt.RangeSize, maxSize: opt.MaxRangeSize, lasts: opt.RangeLasts},
	}
	g.word.Store(windowShut)
	return g
}

// Next returns one number. While numbers are available it takes no lock, does
// no I/O and ignores ctx. Otherwise it waits for the store until ctx ends.
//
// It fails with ErrExhausted, ErrCorrupt, ErrMissing, ErrRefused, ErrClosed,
// ErrUnavailable or the cause of ctx. The last two also wrap the store's last
// error.
func (g *Generator) Next(ctx context.Context) (n int64, err error) {
	if n = g.word.Add(windowStep) & windowMask; n < 0 {
		n, err = g.nextSlow(ctx)
	}
	return
}

// Lease returns n consecutive numbers. n is 1 to MaxLease.
func (g *Generator) Lease(ctx context.Context, n int) (Range, error) {
	if n < 1 || n > MaxLease {
		return Range{}, fmt.Errorf("lease of %d numbers: request 1 to %d", n, MaxLease)
	}
	if r, ok := g.takeOpen(int64(n)); ok {
		return r, nil
	}
	return g.leaseSlow(ctx, int64(n))
}

// nextSlow is the slow path of Next: without an open window. Inlined into Next,
// it would make Next too large to be inlined into its callers.
//
//go:noinline
func (g *Generator) nextSlow(ctx context.Context) (int64, error) {
	r, err := g.leaseSlow(ctx, 1)
	return r.First, err
}

// leaseSlow takes n consecutive numbers, or waits for them. Callers that wait
// are served in the order in which they came, so that none starves.
func (g *Generator) leaseSlow(ctx context.Context, n int64) (Range, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		g.word.Store(windowShut) // so that very many calls of Next do not make it overflow
		return Range{}, ErrClosed
	}
	if r, ok := g.takeAvailable(n); ok {
		return r, nil
	}
	l := &lease{n: n}
	g.leases = append(g.leases, l)
	ctx, cancel := g.beginWait(ctx)
	defer cancel()
	for !l.done {
		if err := g.await(ctx); err != nil && !l.done {
			g.dropLease(l)
			return Range{}, err
		}
	}
	return l.got, l.err
}

func (g *Generator) dropLease(l *lease) {
	g.leases = slices.DeleteFunc(g.leases, func(other *lease) bool { return other == l })
}

// beginWait counts a call that has to wait and limits its context to MaxWait.
func (g *Generator) beginWait(ctx context.Context) (context.Context, context.CancelFunc) {
	g.waits++
	if g.opt.MaxWait == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, g.opt.MaxWait, ErrUnavailable)
}

// await waits, with mu released, until the filler wakes the callers.
func (g *Generator) await(ctx context.Context) error {
	if g.stopping {
		return ErrClosed
	}
	g.startFilling()
	if !g.filling {
		return g.problem // the store has just refused a request
	}
	r := g.round
	g.waiting++
	g.mu.Unlock()
	var ended error
	select {
	case <-r.done:
	case <-ctx.Done():
		ended = context.Cause(ctx)
	}
	g.mu.Lock()
	g.waiting--
	switch {
	case ended == nil:
		return r.err
	case g.lastError != nil:
		return fmt.Errorf("wait for numbers of sequence %q: %w; last error of the store: %w", g.sequence, ended, g.lastError)
	default:
		return fmt.Errorf("wait for numbers of sequence %q: %w", g.sequence, ended)
	}
}
