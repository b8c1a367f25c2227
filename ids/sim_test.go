package ids_test

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"kennel/ids"
	"kennel/internal/chance"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// TestSimulations runs nodes that start, draw, lease, close and are killed at
// random, against a store with every kind of fault, while operators spoil,
// delete, restore and raise the sequence. No number may be issued twice, and no
// call may outlast its ctx.
func TestSimulations(t *testing.T) {
	t.Parallel()
	all := storetest.Simulate(t, storetest.Scale(100, 1_000), func(run *storetest.Simulation) {
		s := simulate(run)
		run.Count("numbers issued", len(s.owner))
		run.Count("calls that failed", s.failed)
		run.Count("twice", s.twice)
	})
	t.Logf("figure: numbers issued twice in simulations (%d runs) | %d | 0", all.Runs, all.Of("twice"))
	all.Want("numbers issued", 50)
	all.Want("calls that failed", 0)
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

// simulation is one sequence, its nodes and the numbers they issued.
type simulation struct {
	*storetest.Simulation
	*tally
	store  *memory.Sequences
	failed int // calls; guarded by the tally's mu
	harmed int
}

// newSimulation returns one in which nothing happened.
func newSimulation(run *storetest.Simulation) *simulation {
	s := &simulation{Simulation: run, tally: newTally(run)}
	s.store = memory.NewSequences(&memory.Options{Fault: s.fault, OnMisuse: run.Misused})
	return s
}

func simulate(run *storetest.Simulation) *simulation {
	s := newSimulation(run)
	chance := s.Chance("world", 0)
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
	chance := s.Chance("node", i)
	for life := range 1 + chance.Below(3) {
		time.Sleep(chance.UpTo(2 * time.Second))
		size := int64(1 + chance.Below(20))
		g := newGenerator(s, s.store, &ids.Options{
			RangeSize: size, MaxRangeSize: size * int64(1+chance.Below(8)), Last: 2000,
			RangeLasts: 4 * time.Second, CallTimeout: 300 * time.Millisecond,
		})
		g.SetJitter(s.Chance("waits of node", 10*i+life).UpTo)
		var callers sync.WaitGroup
		for caller := range 1 + chance.Below(2) {
			callers.Go(func() { s.draw(i, s.Chance("caller of node", 100*i+10*life+caller), g) })
		}
		callers.Wait()
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		if chance.Below(2) == 0 {
			cancel() // like a kill: no further request, no number returned
		}
		g.Close(ctx)
		cancel()
		if _, err := g.Next(s.Context()); !errors.Is(err, ids.ErrClosed) {
			s.Errorf("Next after Close: %v, want ErrClosed", err)
		}
	}
}

func (s *simulation) draw(i int, chance *chance.Source, g *ids.Generator) {
	for range 1 + chance.Below(10) {
		limit := chance.UpTo(4 * time.Second)
		ctx, cancel := context.WithTimeout(s.Context(), limit)
		began := time.Now()
		r, err := draw(ctx, g, max(1, chance.Below(160)-120))
		cancel()
		if took := time.Since(began); took > limit {
			s.Errorf("a call with a limit of %v took %v", limit, took)
		}
		switch {
		case err != nil:
			s.mu.Lock()
			s.failed++
			s.mu.Unlock()
		case r.First < 1 || r.Last > 2000:
			s.Errorf("numbers %v are outside of the sequence", r)
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
	chance := s.Chance("operator", 0)
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
	if next := number(s, now.Text); chance.Below(2) == 0 || next < 10 {
		s.store.Delete("orders")
	} else {
		older := now
		older.Text, older.Meta = strconv.FormatInt(next-int64(chance.Below(int(next))), 10), maps.Clone(now.Meta)
		delete(older.Meta, "peak")
		s.mu.Lock()
		s.excused = ids.Range{First: number(s, older.Text), Last: 2000}
		s.mu.Unlock()
		s.store.Restore("orders", older)
	}
	time.Sleep(chance.UpTo(3 * time.Second))
	highest := max(number(s, now.Text), number(s, max(ids.MarkOf(now).Peak, "0")))
	if then, ok := s.store.Get("orders"); ok {
		highest = max(highest, number(s, then.Text), number(s, max(ids.MarkOf(then).Peak, "0")))
	}
	s.mu.Lock()
	s.excused.Last = min(s.excused.Last, highest)
	s.mu.Unlock()
	s.raise(highest + 100)
}

func (s *simulation) raise(atLeast int64) {
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	ids.Raise(ctx, s.store, "orders", atLeast, false) // after an error the next life may find it unraised
}

// mishaps make one request in four fail. The last kind is an unfounded conflict.
var mishaps = memory.Mishaps{
	Each: 28, Trip: 50 * time.Millisecond, Lost: errLost, After: 3 * time.Second,
	Slow: 2 * time.Second, Rejected: []error{ids.ErrChanged}, // slower than the timeout
}

func (s *simulation) fault(call memory.Call) memory.Fault {
	return mishaps.Draw(s.Chance("request", int(call.N)))
}
