package gate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"kennel/gate"
	"kennel/internal/chance"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// TestSimulations runs processes whose waiters come, leave and come back to
// other processes, and administrators, against a store that fails in every way
// it can, an operator who breaks, deletes and restores the document, and
// signals that get lost, arrive twice or late, are forged, or are not there at
// all. It looks for waiters that start falsely or are left behind.
func TestSimulations(t *testing.T) {
	t.Parallel()
	all := storetest.Simulate(t, storetest.Scale(100, 2_000), simulate)
	t.Logf("%d waits failed, and %d waiters passed after the gate was closed again", all.Of("waits that failed"), all.Of("passes of a closed gate"))
	t.Logf("figure: waiters that pass falsely, in simulations with faults, half of them without signals (%d runs, %d passed) | %d | 0", all.Runs, all.Of("passes"), all.Of("false starts"))
	t.Logf("figure: waiters left behind in these simulations | %d | 0", all.Of("left behind"))
	t.Logf("figure: releases with other than one winner in these simulations (%d releases) | %d | 0", all.Of("releases"), all.Of("disagreed"))
	t.Logf("figure: the latest pass after a release in these simulations | %.0f %% of 1.1 × poll + a round trip | ≤ 100 %%", 100*all.MaxOf("time to pass, of the bound"))
	all.Want("passes", 1)
	all.Want("passes of a closed gate", 0)
	all.Want("waits that failed", 0)
	all.Want("releases", 1)
}

// What holds in every simulation.
const (
	roundTrip     = 100 * time.Millisecond // of a request to which nothing happens, at most
	callTimeout   = time.Second
	changeTimeout = 4 * time.Second
	maxCalm       = 12 * time.Second // when faults end, at the latest
	maxDelay      = 5 * time.Second  // of a signal
)

// ways are how signals travel in a simulation.
type ways int

const (
	absent   ways = iota // none are set up
	dead                 // they never connect
	lossy                // some get lost, come twice, late or in another order
	flapping             // the same, and now and then all are cut off
	silent               // all get lost, and no process learns of it
	allWays
)

// simulation is one gate and all who use it.
type simulation struct {
	*storetest.Simulation
	store   *memory.Values
	signals *memory.Signals
	ways    ways
	faulty  bool      // requests fail and the operator acts until calm
	calm    time.Time // from then on nothing is broken
	procs   []*gate.Gates

	mu      sync.Mutex
	posted  map[int]int // signals to each listener
	stays   []stay
	changes map[string]error // by reason: what its administrator got; errNothing if there was nothing to change
}

var errNothing = errors.New("it was so already")

// stay is one waiter's time at the gate: from when it came, or has seen a
// generation, until it passes or leaves.
type stay struct {
	from, until time.Time
	after       int64 // gate.Now if it has seen none
	passed      bool
	closed      bool // the gate was closed again by then
}

func simulate(run *storetest.Simulation) {
	s := &simulation{Simulation: run, posted: make(map[int]int), changes: make(map[string]error)}
	c := s.Chance("world", 0)
	s.ways = ways(c.Below(int(allWays)))
	s.faulty = c.Below(2) == 0
	s.calm = time.Now().Add(c.UpTo(maxCalm))
	s.store = memory.NewValues(&memory.Options{Fault: s.fault, OnMisuse: run.Misused})
	s.store.SetClock(time.Duration(c.Below(3)-1) * time.Hour)
	s.signals = memory.NewSignals(&memory.SignalOptions{Fault: s.signalFault, Connect: c.UpTo(2 * time.Second)})

	ctx, stop := context.WithCancel(run.Context())
	var running, acting sync.WaitGroup
	for i := range 1 + c.Below(3) {
		g := s.newGates(fmt.Sprint("process ", i))
		s.procs = append(s.procs, g)
		running.Go(func() {
			time.Sleep(time.Duration(1+i) * time.Microsecond)
			if err := g.Run(ctx); err != nil {
				run.Error(err)
			}
		})
	}
	for i := range 1 + c.Below(3) {
		running.Go(func() { s.waiter(ctx, s.Chance("waiter", i)) })
	}
	switch s.ways {
	case dead:
		s.signals.Break()
	case flapping:
		acting.Go(s.flap)
	}
	if s.faulty {
		acting.Go(s.operator)
	}
	acting.Go(s.forger)
	for i := range 1 + c.Below(2) {
		acting.Go(func() { s.administrator(fmt.Sprint("admin ", i), s.Chance("admin", i)) })
	}
	acting.Wait()
	s.finish()
	stop()
	running.Wait()
	s.store.Wait()
	s.judge()
}

func (s *simulation) newGates(name string) *gate.Gates {
	o := &gate.Options{PollOften: often, PollRarely: rarely, CallTimeout: callTimeout, ChangeTimeout: changeTimeout}
	if s.ways != absent {
		o.Signals = s.signals
	}
	g := newGates(s, s.store, o)
	g.SetJitter(s.Chance("jitter of "+name, 0).UpTo)
	return g
}

// waiter waits for one release after the other. After each wait it comes back
// to any process, as behind a load balancer.
func (s *simulation) waiter(ctx context.Context, c *chance.Source) {
	time.Sleep(c.UpTo(5 * time.Second))
	var stays []stay
	v := stay{from: time.Now(), after: gate.Now}
	byHTTP, passed := !s.faulty && c.Below(2) == 0, int64(0) // comes back with the generation in the state
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, c.UpTo(30*time.Second))
		limit, began := c.UpTo(20*time.Second), time.Now()
		w, err := s.procs[c.Below(len(s.procs))].Wait(wait, "start", v.after, limit)
		if cancel(); time.Since(began) > limit {
			s.Errorf("a wait of %v lasted %v", limit, time.Since(began))
		}
		v.until, v.passed, v.closed = time.Now(), w.Passed, !w.State.Released
		if err != nil {
			s.Count("waits that failed", 1)
		}
		if err != nil && w.Passed || err == nil && !w.Passed && w.State.Generation > w.Generation {
			s.Errorf("the wait after %d ended with %+v, %v", v.after, w, err)
		}
		if byHTTP && err == nil {
			w.Generation = w.State.Generation
		}
		if w.Passed && v.after != gate.Now && w.Generation <= passed {
			s.Errorf("passed generation %d after %d", w.Generation, passed)
		}
		if w.Passed {
			passed = w.Generation
		}
		if !w.Passed && w.Generation == v.after {
			if v.after == gate.Now {
				v.from = time.Now() // it has learned nothing, and comes as if for the first time
			}
			continue
		}
		stays = append(stays, v)
		v = stay{from: time.Now(), after: w.Generation}
		if w.Passed && c.Below(3) == 0 {
			time.Sleep(c.UpTo(5 * time.Second))
			v.from = time.Now()
			if c.Below(2) == 0 {
				v.after, passed = gate.Now, 0
			}
		}
	}
	v.until = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stays = append(append(s.stays, stays...), v)
}

// administrator changes the gate a few times, from a process that has waiters
// or from one that has none.
func (s *simulation) administrator(name string, c *chance.Source) {
	g := s.newGates(name)
	for i := range 1 + c.Below(4) {
		time.Sleep(c.UpTo(4 * time.Second))
		by := g
		if c.Below(3) == 0 {
			by = s.procs[0]
		}
		s.change(by, c.Below(3) > 0, gate.Change{By: name, Reason: fmt.Sprint(name, ", change ", i)})
	}
}

func (s *simulation) change(g *gate.Gates, release bool, c gate.Change) {
	done, err := changeTo(g, release)(s.Context(), "start", c)
	if err == nil && !done.Changed {
		err = errNothing
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes[c.Reason] = err
}

// finish releases the gate a last time, a second after all is calm, and gives
// all waiters the time they may take.
func (s *simulation) finish() {
	c := s.Chance("last", 0)
	time.Sleep(max(0, time.Until(s.calm)) + time.Second + c.UpTo(3*time.Second))
	g := s.newGates("last")
	s.change(g, false, gate.Change{By: "last", Reason: "close", Force: true})
	time.Sleep(c.UpTo(2 * time.Second))
	s.change(g, true, gate.Change{By: "last", Reason: "release"})
	time.Sleep(s.bound() + time.Second)
}

// mishaps make one request in three go wrong, while things do. Those that
// replace the document may also meet a false conflict.
var mishaps = memory.Mishaps{
	Each: 24, Trip: roundTrip / 2, Lost: errLost, After: 3 * time.Second, Slow: 2 * callTimeout,
	Rejected: []error{errors.New("forbidden")},
}

func (s *simulation) fault(c memory.Call) memory.Fault {
	m := mishaps
	switch {
	case !s.faulty || !time.Now().Before(s.calm):
		m.Each = 0
	case c.Op == "Replace":
		m.Rejected = append(m.Rejected, gate.ErrChanged)
	}
	return m.Draw(s.Chance("request", int(c.N)))
}

// signalFault loses one signal in eight, or all.
func (s *simulation) signalFault(listener int, _ gate.Signal) memory.SignalFault {
	s.mu.Lock()
	s.posted[listener]++
	c := s.Chance(fmt.Sprint("signal to ", listener), s.posted[listener])
	s.mu.Unlock()
	return memory.SignalFault{
		Lost:  s.ways == silent || c.Below(8) == 0,
		Twice: c.Below(8) == 0,
		Delay: c.UpTo([]time.Duration{50 * time.Millisecond, 50 * time.Millisecond, maxDelay}[c.Below(3)]),
	}
}

// operator breaks, deletes and restores the document while faults last.
func (s *simulation) operator() {
	c := s.Chance("operator", 0)
	for range c.Below(4) {
		time.Sleep(c.UpTo(time.Until(s.calm) / 2))
		past := s.store.Past("start")
		if len(past) == 0 {
			continue
		}
		switch c.Below(4) {
		case 0:
			s.store.Set("start", corrupt[c.Below(len(corrupt))])
		case 1:
			s.change(s.procs[0], c.Below(2) == 0, gate.Change{By: "operator", Reason: fmt.Sprint("force ", c.Below(1e9)), Force: true})
		case 2:
			s.store.Delete("start")
		case 3:
			if copied := past[c.Below(len(past))]; copied.Version != "" {
				s.store.Set("start", copied.Text)
			}
		}
	}
}

// corrupt is what is found where a gate should be.
var corrupt = []string{"", "true", "released", `{"version":2,"released":true,"generation":1}`, "\x00\x00\x00\x00"}

// forger sends signals that nothing has caused.
func (s *simulation) forger() {
	c := s.Chance("forger", 0)
	for range c.Below(6) {
		time.Sleep(c.UpTo(4 * time.Second))
		s.signals.Publish(s.Context(), gate.Signal{
			Gate:       []string{"start", "start", "", "other"}[c.Below(4)],
			Generation: []int64{0, -1, time.Now().UnixMilli(), gate.MaxGeneration}[c.Below(4)],
		})
	}
}

// flap cuts all listeners off from signals, and not for long.
func (s *simulation) flap() {
	c := s.Chance("flap", 0)
	for time.Now().Before(s.calm) {
		time.Sleep(c.UpTo(4 * time.Second))
		s.signals.Break()
		time.Sleep(c.UpTo(4 * time.Second))
		s.signals.Mend()
	}
}
