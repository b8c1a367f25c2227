package ids_test

import (
	"context"
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/chance"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

var (
	simulations = flag.Int("simulations", storetest.Scale(100, 8_000), "seeded simulations to run")
	seedToRun   = flag.Uint64("seed", 0, "run the one simulation with this seed")
)

// TestSimulations runs nodes that start, draw, lease, close and are killed at
// random, against a store with every kind of fault, while operators spoil,
// delete, restore and raise the sequence. No number may be issued twice, and no
// call may outlast its ctx.
func TestSimulations(t *testing.T) {
	t.Parallel()
	if *seedToRun != 0 {
		synctest.Test(t, func(t *testing.T) { simulate(t, *seedToRun) })
		return
	}
	base := rand.Uint64()
	ran, issued, failed, twice := 0, 0, 0, 0
	for ; ran < *simulations && !t.Failed(); ran++ {
		seed := base + uint64(ran)
		synctest.Test(t, func(t *testing.T) {
			s := simulate(t, seed)
			issued, failed, twice = issued+len(s.owner), failed+s.failed, twice+s.twice
			if t.Failed() {
				t.Logf("seed %d failed; repeat it with -run TestSimulations -seed %d", seed, seed)
			}
		})
	}
	t.Logf("figure: numbers issued twice in simulations (%d runs) | %d | 0", ran, twice)
	if !t.Failed() && (issued < *simulations*50 || failed == 0) {
		t.Errorf("%d numbers and %d failed calls are too few for a meaningful test", issued, failed)
	}
}

// tally records which node issued each number, and fails the test if a number
// is issued twice.
type tally struct {
	t testing.TB

	mu      sync.Mutex
	owner   map[int64]int // number → node
	excused ids.Range     // reserved again after an older mark was restored and before it was raised
	twice   int
}

func newTally(t testing.TB) *tally {
	return &tally{t: t, owner: make(map[int64]int), excused: ids.Range{First: 0, Last: -1}}
}

func (y *tally) add(node int, r ids.Range) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for n := r.First; n <= r.Last; n++ {
		if other, taken := y.owner[n]; taken && (n < y.excused.First || n > y.excused.Last) {
			y.twice++
			y.t.Errorf("number %d was issued to node %d and to node %d", n, other, node)
		}
		y.owner[n] = node
	}
}

// simulation is one sequence, its nodes and the numbers they issued. Each part
// has its own random source, derived from the seed, so that the order of
// goroutines within an instant does not change the choices of other parts.
type simulation struct {
	*tally
	t      *testing.T
	seed   uint64
	store  *memory.Sequences
	failed int // calls; guarded by the tally's mu
	harmed int
}

func simulate(t *testing.T, seed uint64) *simulation {
	s := &simulation{tally: newTally(t), t: t, seed: seed}
	chance := s.chance("world", 0)
	s.store = memory.NewSequences(&memory.Options{Fault: s.fault, OnMisuse: func(problem string) { t.Error(problem) }})
	if chance.Below(3) == 0 {
		s.store.Set("orders", strconv.Itoa(1+chance.Below(1000))+[]string{"", "\n", "\r\n"}[chance.Below(3)])
	}
	var nodes sync.WaitGroup
	for i := range 3 + chance.Below(6) {
		nodes.Go(func() { s.node(i) })
	}
	nodes.Go(s.operate)
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
		g := newGenerator(s.t, s.store, &ids.Options{
			RangeSize: size, MaxRangeSize: size * int64(1+chance.Below(8)), Last: 2000,
			RangeLasts: 4 * time.Second, CallTimeout: 300 * time.Millisecond,
		})
		g.SetJitter(s.chance("waits of node", 10*i+life).UpTo)
		var callers sync.WaitGroup
		for caller := range 1 + chance.Below(2) {
			callers.Go(func() { s.draw(i, s.chance("caller of node", 100*i+10*life+caller), g) })
		}
		callers.Wait()
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		if chance.Below(2) == 0 {
			cancel() // like a kill: no further request, no number returned
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
		limit := chance.UpTo(4 * time.Second)
		ctx, cancel := context.WithTimeout(s.t.Context(), limit)
		began := time.Now()
		r, err := draw(ctx, g, max(1, chance.Below(160)-120))
		cancel()
		if took := time.Since(began); took > limit {
			s.t.Errorf("a call with a limit of %v took %v", limit, took)
		}
		switch {
		case err != nil:
			s.mu.Lock()
			s.failed++
			s.mu.Unlock()
		case r.First < 1 || r.Last > 2000:
			s.t.Errorf("numbers %v are outside of the sequence", r)
		default:
			s.add(i, r)
		}
		if chance.Below(3) == 0 {
			time.Sleep(chance.UpTo(time.Second))
		}
	}
}

// draw takes one number by Next, or several by Lease.
func draw(ctx context.Context, g *ids.Generator, n int) (r ids.Range, err error) {
	if n > 1 {
		return g.Lease(ctx, n)
	}
	r.First, err = g.Next(ctx)
	r.Last = r.First
	return r, err
}

// operate does what an operator does, by mistake or to repair it.
func (s *simulation) operate() {
	chance := s.chance("operator", 0)
	switch chance.Below(6) {
	case 0:
		time.Sleep(chance.UpTo(4 * time.Second))
		s.spoil(chance)
	case 1, 2:
		// By now no request is on its way that creates the sequence.
		time.Sleep(6*time.Second + chance.UpTo(4*time.Second))
		s.harm(chance)
	case 3:
		for range 1 + chance.Below(4) {
			time.Sleep(chance.UpTo(4 * time.Second))
			s.raise(int64(1 + chance.Below(1000))) // 0 would begin a new sequence with 0
		}
	}
}

// spoil makes the stored text invalid for a while.
func (s *simulation) spoil(chance *chance.Source) {
	good, ok := s.store.Get("orders")
	if !ok {
		return
	}
	bad := []string{"12x", "", "-5", "0x10", "9223372036854775808", " 7", "1e3", "７"}
	s.store.Set("orders", bad[chance.Below(len(bad))])
	time.Sleep(chance.UpTo(2 * time.Second))
	s.store.Restore("orders", good)
}

// harm deletes the mark, or restores an older one, and repairs this by a raise
// above every number.
func (s *simulation) harm(chance *chance.Source) {
	now, ok := s.store.Get("orders")
	if !ok || !ids.MarkOf(now).Known {
		return
	}
	s.harmed++
	if next := number(s.t, now.Text); chance.Below(2) == 0 || next < 10 {
		s.store.Delete("orders")
	} else {
		older := now
		older.Text, older.Meta = strconv.FormatInt(next-int64(chance.Below(int(next))), 10), maps.Clone(now.Meta)
		delete(older.Meta, "peak")
		s.mu.Lock()
		s.excused = ids.Range{First: number(s.t, older.Text), Last: 2000}
		s.mu.Unlock()
		s.store.Restore("orders", older)
	}
	time.Sleep(chance.UpTo(3 * time.Second))
	highest := max(number(s.t, now.Text), number(s.t, max(ids.MarkOf(now).Peak, "0")))
	if then, ok := s.store.Get("orders"); ok {
		highest = max(highest, number(s.t, then.Text), number(s.t, max(ids.MarkOf(then).Peak, "0")))
	}
	s.mu.Lock()
	s.excused.Last = min(s.excused.Last, highest)
	s.mu.Unlock()
	s.raise(highest + 100)
}

func (s *simulation) raise(atLeast int64) {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	ids.Raise(ctx, s.store, "orders", atLeast, false) // after an error the next life may find it unraised
}

// fault makes one request in four fail.
func (s *simulation) fault(call memory.Call) memory.Fault {
	chance := s.chance("request", int(call.N))
	f := memory.Fault{Delay: chance.UpTo(50 * time.Millisecond), Back: chance.UpTo(50 * time.Millisecond)}
	switch chance.Below(28) {
	case 0:
		f.Err = errLost // applied, reply lost
	case 1:
		f.Err, f.Lost = errLost, true // never arrives
	case 2:
		f.Err, f.After = errLost, chance.UpTo(3*time.Second) // arrives later
	case 3:
		f.Lost = true // never arrives; no error before the timeout
	case 4:
		f.Err, f.Lost = memory.ErrBusy, true
	case 5:
		f.Delay = chance.UpTo(2 * time.Second) // slower than the timeout
	case 6:
		f.Err, f.Lost = ids.ErrChanged, true // an unfounded conflict
	}
	return f
}

// chance returns the random source of one part.
func (s *simulation) chance(of string, i int) *chance.Source { return chance.New(s.seed, of, i) }
