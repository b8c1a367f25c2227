package ids_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/chance"
	"kennel/internal/memory"
)

var (
	simulations = flag.Int("simulations", defaultSimulations, "seeded simulations to run")
	simulateOne = flag.Uint64("seed", 0, "run the one simulation with this seed")
)

// TestSimulations runs nodes that start, draw, lease, close and die at random
// against a store that fails in every way it can, and looks for a number that
// was issued twice.
func TestSimulations(t *testing.T) {
	if *simulateOne != 0 {
		synctest.Test(t, func(t *testing.T) { simulate(t, *simulateOne) })
		return
	}
	base := rand.Uint64()
	t.Logf("seeds %d to %d", base, base+uint64(*simulations))
	var issued, failed, twice int64
	ran := 0
	defer func() { // also when a simulation has failed, which ends the test
		t.Logf("figure: numbers issued twice in %d seeded simulations | %d | 0", ran, twice)
	}()
	for i := range *simulations {
		seed := base + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			s := simulate(t, seed)
			issued += int64(len(s.issued))
			failed += int64(s.failed)
			twice += int64(s.twice)
			if ran++; t.Failed() {
				t.Logf("seed %d: run it alone with -run TestSimulations -seed %d", seed, seed)
			}
		})
	}
	t.Logf("%d simulations issued %d numbers; %d calls failed, as they should", *simulations, issued, failed)
	if issued < int64(*simulations)*50 || failed == 0 {
		t.Errorf("%d numbers and %d failures are too few to have tried anything", issued, failed)
	}
}

// simulation is one sequence, its nodes and what they were given. Everybody in
// it draws from a source of its own, made from the seed, so that who runs first
// within an instant changes nothing for the others.
type simulation struct {
	t     *testing.T
	seed  uint64
	store *memory.Sequences

	mu     sync.Mutex
	issued map[int64]int // number → node
	failed int
	twice  int
}

func simulate(t *testing.T, seed uint64) *simulation {
	s := &simulation{t: t, seed: seed, issued: make(map[int64]int)}
	chance := s.chance("world", 0)
	s.store = memory.NewSequences(&memory.Options{Fate: s.fate, Police: func(problem string) { t.Error(problem) }})
	if chance.Below(3) == 0 {
		s.store.Set("orders", strconv.Itoa(1+chance.Below(1000))+[]string{"", "\n", "\r\n"}[chance.Below(3)])
	}
	var nodes sync.WaitGroup
	for i := range 3 + chance.Below(6) {
		nodes.Go(func() { s.node(i) })
	}
	nodes.Go(s.vandal)
	nodes.Wait()
	s.store.Wait()
	return s
}

// node draws numbers in one or more lives.
func (s *simulation) node(i int) {
	chance := s.chance("node", i)
	for life := range 1 + chance.Below(3) {
		time.Sleep(chance.UpTo(2 * time.Second))
		size := int64(1 + chance.Below(20))
		g, err := ids.New(s.store, "orders", &ids.Options{
			RangeSize: size, MaxRangeSize: size * int64(1+chance.Below(8)), Last: 2000,
			RangeLasts: 4 * time.Second, CallTimeout: 300 * time.Millisecond,
		})
		if err != nil {
			s.t.Error(err)
			return
		}
		waits := s.chance("waits of node", 10*i+life)
		g.SetJitter(waits.UpTo)
		var callers sync.WaitGroup
		for caller := range 1 + chance.Below(2) {
			callers.Go(func() { s.draw(i, s.chance("caller of node", 100*i+10*life+caller), g) })
		}
		callers.Wait()
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		if chance.Below(2) == 0 {
			cancel() // the nearest thing to a kill: no request more, nothing given back
		}
		g.Close(ctx)
		cancel()
		if _, err := g.Next(s.t.Context()); !errors.Is(err, ids.ErrClosed) {
			s.t.Errorf("Next after Close: %v, want ErrClosed", err)
		}
	}
}

func (s *simulation) draw(i int, chance *chance.Source, g *ids.Generator) {
	for range 1 + chance.Below(10) {
		ctx, cancel := context.WithTimeout(s.t.Context(), chance.UpTo(4*time.Second))
		var r ids.Range
		var err error
		if chance.Below(4) == 0 {
			r, err = g.Lease(ctx, 1+chance.Below(40))
		} else {
			r.First, err = g.Next(ctx)
			r.Last = r.First
		}
		cancel()
		s.record(i, r, err)
		if chance.Below(3) == 0 {
			time.Sleep(chance.UpTo(time.Second))
		}
	}
}

func (s *simulation) record(i int, r ids.Range, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed++
		return
	}
	for n := r.First; n <= r.Last; n++ {
		if other, taken := s.issued[n]; taken {
			s.twice++
			s.t.Errorf("number %d was issued to node %d and to node %d", n, other, i)
		}
		s.issued[n] = i
		if n < 1 || n > 2000 {
			s.t.Errorf("number %d is outside of the sequence", n)
		}
	}
}

// vandal makes the stored text unreadable for a while, as people do, and puts
// it right again.
func (s *simulation) vandal() {
	chance := s.chance("vandal", 0)
	if chance.Below(2) == 0 {
		return
	}
	time.Sleep(chance.UpTo(4 * time.Second))
	good, ok := s.store.Get("orders")
	if !ok {
		return
	}
	bad := []string{"12x", "", "-5", "0x10", "9223372036854775808", " 7", "1e3", "７"}
	s.store.Set("orders", bad[chance.Below(len(bad))])
	time.Sleep(chance.UpTo(2 * time.Second))
	s.store.Set("orders", good.Text)
}

// fate makes one request in four go wrong.
func (s *simulation) fate(call memory.Call) memory.Fate {
	chance := s.chance("request", int(call.N))
	f := memory.Fate{Delay: chance.UpTo(50 * time.Millisecond), Back: chance.UpTo(50 * time.Millisecond)}
	lost := errors.New("connection reset")
	switch chance.Below(28) {
	case 0:
		f.Err = lost // carried out, answer lost
	case 1:
		f.Err, f.Lost = lost, true // never arrived
	case 2:
		f.Err, f.After = lost, chance.UpTo(3*time.Second) // arrives when nobody expects it
	case 3:
		f.Lost = true // a black hole
	case 4:
		f.Err, f.Lost = memory.ErrBusy, true
	case 5:
		f.Delay = chance.UpTo(2 * time.Second) // slower than the caller's patience
	case 6:
		f.Err, f.Lost = ids.ErrChanged, true // a conflict that was none
	}
	return f
}

// chance returns the source of random numbers of one who takes part.
func (s *simulation) chance(of string, i int) *chance.Source { return chance.New(s.seed, of, i) }

func TestMain(m *testing.M) {
	flag.Parse()
	if *simulations < 1 {
		fmt.Fprintln(os.Stderr, "-simulations must be at least 1")
		os.Exit(2)
	}
	os.Exit(m.Run())
}
