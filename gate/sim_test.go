package gate_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/chance"
	"kennel/internal/memory"
)

var (
	simulations = flag.Int("simulations", gate.DefaultSimulations, "seeded simulations to run")
	simulateOne = flag.Uint64("seed", 0, "run the one simulation with this seed")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *simulations < 1 {
		fmt.Fprintln(os.Stderr, "-simulations must be at least 1")
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// TestSimulations runs processes whose waiters come, go and come back to
// others, and administrators who release and close, against a store that fails
// in every way it can, a person who breaks or deletes the document, and signals
// that get lost, arrive twice or late, or are not there at all. It looks for
// waiters who start falsely or stay behind.
func TestSimulations(t *testing.T) {
	if *simulateOne != 0 {
		synctest.Test(t, func(t *testing.T) { simulate(t, *simulateOne) })
		return
	}
	base := rand.Uint64()
	t.Logf("seeds %d to %d", base, base+uint64(*simulations))
	var all verdict
	defer func() { all.figures(t) }() // also when a simulation has failed
	for i := range *simulations {
		seed := base + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			all.add(simulate(t, seed))
			if t.Failed() {
				t.Logf("seed %d: run it alone with -run TestSimulations -seed %d", seed, seed)
			}
		})
	}
	t.Logf("%d releases, %d waiters passed, %d of them at a gate that was shut again; %d calls failed, as they should",
		all.releases, all.passed, all.rearmed, all.failed)
	if all.passed < *simulations || all.failed == 0 || all.releases < *simulations || all.rearmed == 0 {
		t.Errorf("%d releases, %d passes, %d of them late, and %d failures are too few to have tried anything", all.releases, all.passed, all.rearmed, all.failed)
	}
}

// What holds in every simulation.
const (
	roundTrip     = 100 * time.Millisecond // of a request that nothing happens to, at most
	callTimeout   = time.Second
	changeTimeout = 4 * time.Second
	often         = 2500 * time.Millisecond
	rarely        = 30 * time.Second
	calmBy        = 12 * time.Second // when faults end, at the latest

	longestSignal = 5 * time.Second // under way; one that arrives twice takes twice as long
)

// ways are how signals travel in a simulation.
type ways int

const (
	absent   ways = iota // none are set up
	dead                 // they never connect
	severed              // they do, until all are cut off for good
	lossy                // some get lost, come twice, late or in another order
	flapping             // the same, and now and then everybody is cut off
	silent               // all get lost, and nobody says so
	allWays
)

// simulation is one gate and everybody who has to do with it. Everybody draws
// from a source of its own, made from the seed, so that who runs first within
// an instant changes nothing for the others.
type simulation struct {
	t       *testing.T
	seed    uint64
	store   *memory.Gates
	signals *memory.Signals
	ways    ways
	faulty  bool      // requests fail until calm
	calm    time.Time // from then on nothing is broken any more
	cut     time.Time // when signals were severed
	procs   []*gate.Gates

	mu      sync.Mutex
	posted  map[int]int // signals to each listener
	vigils  []vigil
	told    []gate.State     // what those who waited were told
	changes map[string]error // by reason: what its administrator was told; errNothing if there was nothing to change
	failed  int
}

var errNothing = errors.New("it was so already")

// vigil is a waiter from when it has come, or has seen a generation, until it
// passes or has enough.
type vigil struct {
	from, until time.Time
	after       int64 // gate.Now if it has seen none
	passed      bool
	shut        bool // the gate was shut again by then
}

func simulate(t *testing.T, seed uint64) verdict {
	s := &simulation{t: t, seed: seed, posted: make(map[int]int), changes: make(map[string]error)}
	c := s.chance("world", 0)
	s.ways = ways(c.Below(int(allWays)))
	s.faulty = c.Below(2) == 0
	s.calm = time.Now().Add(c.UpTo(calmBy))
	s.store = memory.NewGates(&memory.Options{Fate: s.fate, Police: func(problem string) { t.Error(problem) }})
	s.signals = memory.NewSignals(&memory.SignalOptions{Fate: s.signalFate, Connect: c.UpTo(2 * time.Second)})

	ctx, stop := context.WithCancel(t.Context())
	var running, acting sync.WaitGroup
	for i := range 1 + c.Below(3) {
		g := s.newGates(fmt.Sprintf("%d-process-%d", seed, i))
		s.procs = append(s.procs, g)
		running.Go(func() {
			time.Sleep(time.Duration(1+i) * time.Microsecond)
			if err := g.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 1 + c.Below(3) {
		running.Go(func() { s.waiter(ctx, s.chance("waiter", i)) })
	}
	switch s.ways {
	case dead:
		s.signals.Break()
	case severed:
		acting.Go(s.sever)
	case flapping:
		acting.Go(s.flap)
	}
	if s.faulty {
		acting.Go(s.vandal)
	}
	acting.Go(s.noise)
	for i := range 1 + c.Below(2) {
		acting.Go(func() { s.administrator(fmt.Sprint("admin ", i), s.chance("admin", i)) })
	}
	acting.Wait()
	s.finish()
	stop()
	running.Wait()
	s.store.Wait()
	return s.judge()
}

func (s *simulation) newGates(instance string) *gate.Gates {
	o := &gate.Options{Instance: instance, PollOften: often, PollRarely: rarely, CallTimeout: callTimeout, ChangeTimeout: changeTimeout}
	if s.ways != absent {
		o.Signals = s.signals
	}
	g, err := gate.New(s.store, o)
	if err != nil {
		s.t.Error(err)
	}
	g.SetJitter(s.chance("waits of "+instance, 0).UpTo)
	return g
}

// waiter waits for one release after the other, coming back after each time
// over to whichever process answers, as behind a load balancer. It stays with
// one where a gate may be deleted: a generation does not say of which life it
// is.
func (s *simulation) waiter(ctx context.Context, c *chance.Source) {
	time.Sleep(c.UpTo(5 * time.Second))
	v := vigil{from: time.Now(), after: gate.Now}
	// Who waits by HTTP comes back with the generation in the state.
	byHTTP, passed := !s.faulty && c.Below(2) == 0, int64(0)
	proc := s.procs[c.Below(len(s.procs))]
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, c.UpTo(30*time.Second))
		if !s.faulty {
			proc = s.procs[c.Below(len(s.procs))]
		}
		w, err := proc.Wait(wait, "start", v.after, c.UpTo(20*time.Second))
		cancel()
		v.until, v.passed, v.shut = time.Now(), w.Passed, !w.State.Released
		s.mu.Lock()
		if err != nil {
			s.failed++
		} else {
			s.told = append(s.told, w.State)
		}
		s.mu.Unlock()
		if err != nil && w.Passed {
			s.t.Errorf("passed with an error: %v", err)
		}
		if err == nil && !w.Passed && !s.faulty && w.State.Generation > w.Generation {
			s.t.Errorf("sent away after %d from a gate that is known to have been released since: %+v", w.Generation, w.State)
		}
		if byHTTP && err == nil {
			w.Generation = w.State.Generation
		}
		if w.Passed && !s.faulty {
			if v.after != gate.Now && w.Generation <= passed {
				s.t.Errorf("passed generation %d after %d", w.Generation, passed)
			}
			passed = w.Generation
		}
		if !w.Passed && w.Generation == v.after {
			if v.after == gate.Now {
				v.from = time.Now() // it has learned nothing, and comes anew
			}
			continue
		}
		s.note(v)
		v = vigil{from: time.Now(), after: w.Generation}
		if w.Passed && c.Below(3) == 0 {
			time.Sleep(c.UpTo(5 * time.Second))
			v.from = time.Now()
			if c.Below(2) == 0 {
				v.after = gate.Now
			}
		}
	}
	v.until = time.Now()
	s.note(v)
}

func (s *simulation) note(v vigil) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vigils = append(s.vigils, v)
}

// administrator changes the gate a few times, from a process of its own that
// does not watch.
func (s *simulation) administrator(name string, c *chance.Source) {
	g := s.newGates(name)
	for i := range 1 + c.Below(4) {
		time.Sleep(c.UpTo(4 * time.Second))
		s.change(g, c.Below(3) > 0, gate.Change{By: name, Reason: fmt.Sprint(name, ", change ", i)})
	}
}

func (s *simulation) change(g *gate.Gates, release bool, c gate.Change) {
	do := g.Close
	if release {
		do = g.Release
	}
	done, err := do(s.t.Context(), "start", c)
	if err == nil && !done.Changed {
		err = errNothing
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes[c.Reason] = err
}

// finish releases the gate a last time, when all is calm, and gives everybody
// the time they may take.
func (s *simulation) finish() {
	c := s.chance("last", 0)
	time.Sleep(max(0, time.Until(s.calm)) + c.UpTo(3*time.Second))
	g := s.newGates("last")
	s.change(g, false, gate.Change{By: "last", Reason: "close"})
	time.Sleep(c.UpTo(2 * time.Second))
	s.change(g, true, gate.Change{By: "last", Reason: "release"})
	time.Sleep(s.bound(time.Now()) + time.Second)
}
