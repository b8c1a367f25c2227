package ids_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/chance"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// lending draws numbers that callers give back in part, and records which of
// them are in use. It is safe for concurrent use.
type lending struct {
	*tally
	chance *chance.Source

	open      []lent // guarded by the tally's mu
	takenBack int64
	reused    int64 // of these, issued again
	back      map[int64]bool
}

// lent is a loan that was not given back.
type lent struct {
	set     *ids.Set
	id      string
	numbers ids.Range
}

func newLending(y *tally, c *chance.Source) *lending {
	return &lending{tally: y, chance: c, back: make(map[int64]bool)}
}

// draw draws n numbers, two times out of three as a loan.
func (l *lending) draw(ctx context.Context, node int, set *ids.Set, n int) error {
	var r ids.Range
	var id string
	var err error
	if l.chance.Below(3) > 0 {
		r, id, err = set.Lend(ctx, "orders", n)
	} else {
		r, err = set.Lease(ctx, "orders", n)
	}
	if err != nil {
		return err
	}
	l.add(node, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := r.First; n <= r.Last; n++ {
		if l.back[n] {
			l.reused++
			delete(l.back, n)
		}
	}
	if id != "" {
		l.open = append(l.open, lent{set, id, r})
	}
	return nil
}

// giveBack gives the end of a loan back, in two calls at once.
func (l *lending) giveBack() {
	l.mu.Lock()
	if len(l.open) == 0 {
		l.mu.Unlock()
		return
	}
	i := l.chance.Below(len(l.open))
	loan := l.open[i]
	l.open = slices.Delete(l.open, i, i+1)
	unused := ids.Range{First: loan.numbers.First + int64(l.chance.Below(int(loan.numbers.Count()))), Last: loan.numbers.Last}
	for n := unused.First; n <= unused.Last; n++ {
		delete(l.owner, n) // from here on another caller may get it
		l.back[n] = true
	}
	l.mu.Unlock()
	var took [2]int64
	var calls sync.WaitGroup
	for i := range took {
		calls.Go(func() {
			var err error
			if took[i], err = loan.set.TakeBack("orders", loan.id, unused.First); err != nil {
				l.t.Error(err)
			}
		})
	}
	calls.Wait()
	if sum := took[0] + took[1]; took[0]*took[1] != 0 || sum != 0 && sum != unused.Count() {
		l.t.Errorf("two returns of %v took %v, want all in one of them, or none", unused, took)
	}
	l.mu.Lock()
	l.takenBack += took[0] + took[1]
	l.mu.Unlock()
}

// TestLoansNeverRepeat runs processes that lend numbers and take them back, are
// idle so long that their numbers go back to the store, stop and are killed,
// over a store with every kind of fault, while operators spoil, delete, restore
// and raise the sequence. No two callers have one number at once.
func TestLoansNeverRepeat(t *testing.T) {
	t.Parallel()
	all := storetest.Simulate(t, storetest.Scale(30, 1200), func(run *storetest.Simulation) {
		l := simulateLoans(run)
		run.Count("numbers taken back", int(l.takenBack))
		run.Count("numbers issued again", int(l.reused))
	})
	t.Logf("%d numbers were taken back, %d of them issued again", all.Of("numbers taken back"), all.Of("numbers issued again"))
	all.Want("numbers issued again", 10)
}

func simulateLoans(run *storetest.Simulation) *lending {
	s := newSimulation(run)
	l := newLending(s.tally, s.Chance("loans", 0))
	var nodes sync.WaitGroup
	for i := range 2 + s.Chance("world", 0).Below(4) {
		nodes.Go(func() { s.lender(i, l) })
	}
	nodes.Go(func() {
		if c := s.Chance("operator", 1); c.Below(2) == 0 {
			time.Sleep(c.UpTo(4 * time.Minute))
		}
		s.operate()
	})
	nodes.Wait()
	s.store.Wait()
	return l
}

// lender is a process that draws numbers and takes them back, in one or more
// lives.
func (s *simulation) lender(i int, l *lending) {
	c := s.Chance("lender", i)
	for life := range 1 + c.Below(3) {
		size := int64(1 + c.Below(20))
		set := newSet(s, s.store, &ids.Options{
			RangeSize: size, MaxRangeSize: size * int64(1+c.Below(8)), Last: 2000,
			RangeLasts: 4 * time.Second, CallTimeout: 300 * time.Millisecond,
		})
		set.SetJitter("orders", s.Chance("waits of lender", 10*i+life).UpTo)
		ctx, end := context.WithCancel(s.Context())
		var running sync.WaitGroup
		running.Go(func() { set.Run(ctx) })
		for range 5 + c.Below(20) {
			limited, cancel := context.WithTimeout(s.Context(), c.UpTo(4*time.Second))
			l.draw(limited, i, set, 1+c.Below(12))
			cancel()
			if c.Below(3) == 0 {
				time.Sleep(c.UpTo([]time.Duration{time.Second, 5 * time.Second, 2 * time.Minute, 12 * time.Minute}[c.Below(40)*c.Below(2)/13]))
			}
			if c.Below(2) == 0 {
				l.giveBack() // of any process, also one that has ended
			}
		}
		closing, cancel := context.WithTimeout(s.Context(), time.Second)
		switch c.Below(3) {
		case 0:
			cancel() // like a kill: no further request
		case 1:
			running.Go(func() { // while it stops
				time.Sleep(c.UpTo(200 * time.Millisecond))
				l.giveBack()
			})
		}
		end()
		set.Close(closing)
		running.Wait()
		cancel()
	}
}

func lend(t testing.TB, set *ids.Set, n int) (ids.Range, string) {
	t.Helper()
	r, id, err := set.Lend(t.Context(), "orders", n)
	if err != nil {
		t.Fatal(err)
	}
	return r, id
}

// want requires that a return takes so many numbers.
func wantTaken(t testing.TB, set *ids.Set, sequence, id string, first, want int64, what string) {
	t.Helper()
	if took, err := set.TakeBack(sequence, id, first); took != want || err != nil {
		t.Errorf("return %s took %d numbers, %v, want %d", what, took, err, want)
	}
}

// A number that comes back is the next one issued, without a request to the
// store; and each return counts once, for its own sequence and numbers.
func TestTakeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(nil)
		set := newSet(t, store, nil)
		r, id := lend(t, set, 5) // 1 to 5
		one, idOfOne := lend(t, set, 1)
		synctest.Wait()
		before := store.Calls()
		for _, first := range []int64{-1, 0, 6, 1 << 62} {
			if took, err := set.TakeBack("orders", id, first); took != 0 || !errors.Is(err, ids.ErrNotLent) {
				t.Errorf("return of %v from %d took %d numbers, %v, want ErrNotLent", r, first, took, err)
			}
		}
		wantTaken(t, set, "invoices", id, 3, 0, "for another sequence")
		wantTaken(t, set, "orders", id[1:]+"A", 3, 0, "of a made-up lease")
		wantTaken(t, set, "orders", "", 3, 0, "without a lease")
		wantTaken(t, set, "orders", id, 3, 3, "of 3 to 5")
		wantTaken(t, set, "orders", id, 3, 0, "again")
		wantTaken(t, set, "orders", id, 1, 0, "of more of it")
		wantTaken(t, set, "orders", idOfOne, one.First, 1, "of one number")
		s, _ := set.StatsOf("orders")
		checkAccount(t, s)
		if s.TakenBack != 4 || s.Used != 7 || store.Calls() != before {
			t.Errorf("after the returns: %+v and %d requests, want 4 taken back, 6 as the highest number used and no request", s, store.Calls()-before)
		}
		for want := int64(3); want <= 8; want++ { // 7 was not issued before
			if n, err := set.Next(t.Context(), "orders"); n != want || err != nil {
				t.Errorf("Next = %d, %v, want %d", n, err, want)
			}
		}
		set.Close(t.Context())
	})
}

// After an idle minute and at a clean stop the numbers go back that no caller
// had, and never those that one gave back: for other processes they are issued.
func TestTakenBackStaysInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(nil)
		set := newSet(t, store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { set.Run(ctx) })
		_, early := lend(t, set, 5)
		wantTaken(t, set, "orders", early, 2, 4, "of 2 to 5")
		time.Sleep(2 * time.Minute)
		if at := stored(t, store); at != 6 {
			t.Errorf("after two idle minutes the stored number is %d, want 6", at)
		}
		if r, _ := lend(t, set, 3); r.First != 2 {
			t.Errorf("then %v were issued, want those that came back", r)
		}
		r, id := lend(t, set, 10)
		time.Sleep(2 * time.Minute)
		wantTaken(t, set, "orders", id, r.Last-5, 6, "after the idle return of its process")
		at := stored(t, store)
		cancel()
		running.Wait()
		last, late := lend(t, set, 1) // of what is available
		wantTaken(t, set, "orders", late, last.First, 0, "while the process stops")
		began := time.Now()
		if err := set.Close(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("Close: %v after %v, want no wait for numbers that cannot go back", err, time.Since(began))
		}
		wantTaken(t, set, "orders", late, last.First, 0, "after the stop")
		if then := stored(t, store); then != at {
			t.Errorf("the stop moved the stored number from %d to %d, want no change", at, then)
		}
	})
}

// Numbers of a lease are not taken back once other callers can have got them,
// after ten minutes, and after 1,000 younger leases.
func TestLeaseEnds(t *testing.T) {
	raise := func(t *testing.T, store *memory.Sequences) {
		if _, err := ids.Raise(t.Context(), store, "orders", 5000, false); err != nil {
			t.Fatal(err)
		}
	}
	restore := func(t *testing.T, store *memory.Sequences) {
		v, _ := store.Get("orders")
		older := ids.MarkOf(v)
		older.Text, older.Peak = "3", ""
		store.Restore("orders", older.Value())
	}
	for what, end := range map[string]func(*testing.T, *memory.Sequences, *ids.Set){
		"a raise": func(t *testing.T, store *memory.Sequences, set *ids.Set) {
			raise(t, store)
			set.Lease(t.Context(), "orders", 100) // the process finds it
		},
		"a restore": func(t *testing.T, store *memory.Sequences, set *ids.Set) {
			restore(t, store)
			if _, err := set.Lease(t.Context(), "orders", 100); !errors.Is(err, ids.ErrCorrupt) {
				t.Errorf("Lease after a restore: %v, want ErrCorrupt", err)
			}
		},
		"a restore and its repair": func(t *testing.T, store *memory.Sequences, set *ids.Set) {
			restore(t, store)
			set.Lease(t.Context(), "orders", 100)
			raise(t, store)
			if _, err := set.Lease(t.Context(), "orders", 100); err != nil {
				t.Error(err)
			}
		},
		"a restore that the idle process found": func(t *testing.T, store *memory.Sequences, set *ids.Set) {
			other := newSet(t, store, nil)
			other.Next(t.Context(), "orders") // so that the process has to read
			restore(t, store)
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			go set.Run(ctx)
			time.Sleep(90 * time.Second)
			other.Close(t.Context())
		},
		"ten minutes": func(*testing.T, *memory.Sequences, *ids.Set) { time.Sleep(10*time.Minute + 1) },
		"1,000 leases": func(t *testing.T, _ *memory.Sequences, set *ids.Set) {
			for i := range 1000 {
				set.Lend(t.Context(), fmt.Sprintf("other-%d", i), 1)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewSequences(nil)
			set := newSet(t, store, nil)
			_, id := lend(t, set, 5)
			_, kept := lend(t, set, 1)
			wantTaken(t, set, "orders", kept, 6, 1, "before "+what)
			end(t, store, set)
			wantTaken(t, set, "orders", id, 2, 0, "after "+what)
			set.Close(t.Context())
		})
	}
}
