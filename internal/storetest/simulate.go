package storetest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/chance"
)

var (
	seedFlag = flag.Uint64("seed", 0, "repeat the simulation or the random test that printed this seed")
	runsFlag = flag.Int("simulations", 0, "run so many simulations, the first one with -seed, instead of the usual number")
)

// Seed returns the seed of a test that draws random numbers: that of the flag
// -seed, or a random one. If the test fails, Seed prints how to repeat it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(repeatWith(t, seed))
		}
	})
	return seed
}

func repeatWith(t testing.TB, seed uint64) string {
	test, _, _ := strings.Cut(t.Name(), "/")
	return fmt.Sprintf("repeat it with -run '%s$' -seed %d", test, seed)
}

// Simulation is one run of [Simulate]. All that is random in it comes from
// Chance, so that its seed repeats it. Its parts run as goroutines in virtual
// time, against stores in memory whose faults are random
// (memory.Mishaps).
type Simulation struct {
	*testing.T
	Seed uint64

	began time.Time
	all   *Simulations
}

// Chance returns the random source of the i-th part of a kind.
func (s *Simulation) Chance(kind string, i int) *chance.Source { return chance.New(s.Seed, kind, i) }

// Elapsed returns for how long the simulation has run, in virtual time.
func (s *Simulation) Elapsed() time.Duration { return time.Since(s.began) }

// Misused reports a request that a correct caller never sends
// (memory.Options.OnMisuse).
func (s *Simulation) Misused(problem string) { s.Error(problem) }

// Count adds n to what all simulations counted.
func (s *Simulation) Count(what string, n int) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.all.counts[what] += n
}

// Max reports x, of which [Simulations.MaxOf] returns the maximum.
func (s *Simulation) Max(what string, x float64) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.all.maxima[what] = max(s.all.maxima[what], x)
}

// Simulations is the result of [Simulate].
type Simulations struct {
	Runs int

	t      *testing.T
	run    func(*Simulation)
	usual  bool // as many simulations as the test names, none of which failed
	mu     sync.Mutex
	counts map[string]int     // guarded by mu
	maxima map[string]float64 // guarded by mu
}

// Simulate runs seeded simulations, as many at once as there are processors,
// each in virtual time, until one fails. Then it prints how to repeat that one.
// The flag -simulations replaces the number of runs, and -seed runs one
// simulation with that seed, or -simulations that begin with it.
func Simulate(t *testing.T, runs int, run func(*Simulation)) *Simulations {
	t.Helper()
	all := &Simulations{t: t, run: run, counts: make(map[string]int), maxima: make(map[string]float64)}
	base := *seedFlag
	switch {
	case *runsFlag > 0:
		runs = *runsFlag
	case base != 0:
		runs = 1
	default:
		all.usual = true
	}
	if base == 0 {
		base = rand.Uint64()
	}
	var next, ran atomic.Int64
	t.Run("runs", func(t *testing.T) {
		for range min(runs, runtime.GOMAXPROCS(0)) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1); i <= int64(runs) && !all.t.Failed(); i = next.Add(1) {
					all.one(t, base+uint64(i-1), i)
					ran.Add(1)
				}
			})
		}
	})
	all.Runs = int(ran.Load())
	all.usual = all.usual && !t.Failed()
	return all
}

// one runs the i-th simulation. A deadlock ends it by a panic.
func (a *Simulations) one(t *testing.T, seed uint64, i int64) {
	ended := false
	defer func() {
		if !ended || t.Failed() {
			t.Logf("simulation %d failed; %s", i, repeatWith(t, seed))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		a.run(&Simulation{T: t, Seed: seed, began: time.Now(), all: a})
	})
	ended = true
}

// Of returns the sum of a count over all simulations.
func (a *Simulations) Of(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[what]
}

// MaxOf returns the maximum that a simulation reported, at least 0.
func (a *Simulations) MaxOf(what string) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.maxima[what]
}

// Want fails the test if the simulations counted less than perRun each on
// average, or nothing: then they have proved nothing. It checks the usual
// number of simulations only.
func (a *Simulations) Want(what string, perRun float64) {
	a.t.Helper()
	if n := a.Of(what); a.usual && (n == 0 || float64(n) < perRun*float64(a.Runs)) {
		a.t.Errorf("%d %s in %d simulations are too few for a meaningful test", n, what, a.Runs)
	}
}

// KillAtEachRequest kills a process before its first request, after it, before
// its second one, and so on, until it ends by itself. run is called for each of
// these, in virtual time. A step above 1 is a sample: each step-th request from
// one of the first on. It returns how many runs there were.
func KillAtEachRequest(t *testing.T, step int, run func(t *testing.T, kill *Killer)) (runs int) {
	t.Helper()
	first := int64(1)
	if step > 1 {
		first += int64(Seed(t) % uint64(step))
	}
	for n, struck := first, true; struck; n += int64(step) {
		struck = false
		for _, after := range []bool{false, true} {
			kill := &Killer{N: n, After: after}
			synctest.Test(t, func(t *testing.T) { run(t, kill) })
			runs++
			struck = struck || kill.Struck()
			if t.Failed() {
				t.Fatal(kill)
			}
		}
	}
	return runs
}
