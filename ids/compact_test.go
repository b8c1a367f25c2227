package ids_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/memory"
)

// Twenty processes of a small shop start one after the other, and each issues
// one number.
func TestColdStarts(t *testing.T) {
	for name, tt := range map[string]struct {
		end func(testing.TB, *ids.Generator)
		max int64
	}{
		"killed":  {func(_ testing.TB, g *ids.Generator) { closeNow(g) }, 220},
		"stopped": {closeCleanly, 21},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewSequences(&memory.Options{Fault: distant})
			for range 20 {
				g := newGenerator(t, store, nil)
				next(t, g)
				time.Sleep(time.Second)
				tt.end(t, g)
			}
			g := newGenerator(t, store, nil)
			n := next(t, g)
			t.Logf("figure: the next number after 20 starts with one number each, all %s | %d | ≤ %d", name, n, tt.max)
			if n > tt.max {
				t.Errorf("all %s: the next number is %d, want at most %d", name, n, tt.max)
			}
			closeNow(g)
			store.Wait()
		})
	}
}

// One caller of a new process causes one range, however slowly storage answers:
// one number is not a demand.
func TestOneCallerReservesOneRange(t *testing.T) {
	for _, away := range []time.Duration{10, 50, 70, 100, 200, 400, 1000, 4000} {
		for fault, spoil := range map[string]func(n int64) memory.Fault{
			"":               func(int64) memory.Fault { return memory.Fault{} },
			", failing":      func(n int64) memory.Fault { return memory.Fault{Err: when(n < 4, errLost), Lost: n < 4} },
			", losing reply": func(n int64) memory.Fault { return memory.Fault{Err: when(n == 2, errLost)} },
		} {
			for _, count := range []int64{1, 5} {
				synctest.Test(t, func(t *testing.T) {
					store := memory.NewSequences(&memory.Options{Fault: func(c memory.Call) memory.Fault {
						f := spoil(c.N)
						f.Delay, f.Back = away*time.Millisecond/2, away*time.Millisecond/2
						return f
					}})
					g := newGenerator(t, store, nil)
					if _, err := draw(t.Context(), g, int(count)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
					want := int64(10)
					if count > 1 {
						want += count // what a caller waits for is reserved with the range
					}
					if got := g.Stats().Reserved; got != want {
						t.Errorf("storage %d ms away%s: one caller of %d reserved %d numbers, want %d", away, fault, count, got, want)
					}
					closeNow(g)
					store.Wait()
				})
			}
		}
	}
}

func when(yes bool, err error) error {
	if yes {
		return err
	}
	return nil
}

// Eight processes under demand stop cleanly at the same time: those that hold
// the last ranges return first, and the others follow.
func TestStopOfEight(t *testing.T) {
	var lost []float64
	for range 5 {
		synctest.Test(t, func(t *testing.T) { lost = append(lost, stopOfEight(t)) })
	}
	t.Logf("figure: numbers lost when 8 processes with 100 numbers a second each stop cleanly, median of 5 | %.1f %% | ≤ 10 %%", median(lost))
	if median(lost) > 10 {
		t.Errorf("%.1f %% of the numbers are lost, want at most 10", lost)
	}
}

// stopOfEight returns the share of the numbers that are lost, in percent.
func stopOfEight(t *testing.T) float64 {
	store := memory.NewSequences(&memory.Options{Fault: distant})
	var sets []*ids.Set
	var drawing, closing sync.WaitGroup
	var issued atomic.Int64
	for i := range 8 {
		set := newSet(t, store, nil)
		sets = append(sets, set)
		drawing.Go(func() {
			time.Sleep(time.Duration(i) * 3 * time.Millisecond)
			for range 20 * 100 {
				if _, err := set.Next(t.Context(), "orders"); err != nil {
					t.Error(err)
				}
				issued.Add(1)
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	drawing.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, set := range sets {
		closing.Go(func() {
			if err := set.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	closing.Wait()
	store.Wait()
	next := float64(stored(t, store) - 1)
	return 100 * (next - float64(issued.Load())) / next
}

// The numbers of a sequence without callers go back after a minute, of several
// processes too, and the next number takes three round trips at most.
func TestIdleNumbersGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(&memory.Options{Fault: distant})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var sets []*ids.Set
		for range 4 {
			set := newSet(t, store, nil)
			sets = append(sets, set)
			running.Go(func() { set.Run(ctx) })
		}
		want := int64(0)
		for round := range 5 {
			for _, set := range sets {
				began := time.Now()
				n, err := set.Next(ctx, "orders")
				if err != nil {
					t.Fatal(err)
				}
				want = max(want, n)
				if took := time.Since(began); round > 0 && took > 3*50*time.Millisecond {
					t.Errorf("the first number after idle minutes took %v, want three round trips", took)
				}
				time.Sleep(time.Second)
			}
			time.Sleep(8 * time.Minute)
		}
		if got := stored(t, store); got != want+1 || want > 5*31 {
			t.Errorf("stored %d after idle minutes, want %d", got, want+1)
		}
		// One after the other: what one returned, the next one draws and returns.
		want = stored(t, store)
		for i := range 2 * len(sets) {
			r, err := sets[i%2].Lease(ctx, "orders", []int{100, 1}[i%2])
			if err != nil || r.First != want {
				t.Errorf("drawn alone: %v, %v, want from %d", r, err, want)
			}
			want = r.Last + 1
			time.Sleep(3 * time.Minute) // before the sequence is given up
		}
		for _, set := range sets {
			s, _ := set.StatsOf("orders")
			checkAccount(t, s)
		}
		cancel()
		running.Wait()
		for _, set := range sets {
			set.Close(t.Context())
		}
		store.Wait()
	})
}

// At 10,000 numbers a second, calls wait only in the first three seconds, and a
// million numbers take few requests.
func TestGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(&memory.Options{Fault: distant})
		g := newGenerator(t, store, nil)
		var warm int64
		for i := range 100 * 100 {
			if i == 3*100 {
				warm = g.Stats().Waits
			}
			for range 100 {
				next(t, g)
			}
			time.Sleep(10 * time.Millisecond)
		}
		s := g.Stats()
		t.Logf("figure: requests for the first million numbers, 10,000 a second | %d | ≤ 1,020", s.Requests)
		if s.Waits > warm || s.Requests > 1020 {
			t.Errorf("%d calls waited after 3 s, and %d requests, want 0 and at most 1,020", s.Waits-warm, s.Requests)
		}
		closeNow(g)
		store.Wait()
	})
}

// Numbers go back, and the reply is lost. If what is stored then does not show
// whether they did, because others have written since or the sequence was
// raised, they are not issued.
func TestReturnWithLostReply(t *testing.T) {
	for name, meanwhile := range map[string]func(*testing.T, *memory.Sequences, *tally){
		"17 others": func(t *testing.T, store *memory.Sequences, y *tally) {
			for i := range 17 {
				g := newGenerator(t, store, nil)
				n := next(t, g)
				y.add(2+i, ids.Range{First: n, Last: n})
				closeNow(g)
			}
		},
		"a raise": func(t *testing.T, store *memory.Sequences, _ *tally) {
			if _, err := ids.Raise(t.Context(), store, "orders", 50, false); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newTally(t)
				var replaces atomic.Int64
				var store *memory.Sequences
				store = memory.NewSequences(&memory.Options{Fault: func(c memory.Call) memory.Fault {
					if c.Op != "Replace" {
						return memory.Fault{}
					}
					switch replaces.Add(1) {
					case 2: // the return
						time.AfterFunc(time.Second, func() { meanwhile(t, store, y) })
						return memory.Fault{Err: errLost}
					case 3: // its repetition
						return memory.Fault{Delay: 2 * time.Second}
					}
					return memory.Fault{}
				}})
				set := newSet(t, store, &ids.Options{RangeSize: 100})
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { set.Run(ctx) })
				draw := func(node int) {
					n, err := set.Next(ctx, "orders")
					if err != nil {
						t.Fatal(err)
					}
					y.add(node, ids.Range{First: n, Last: n})
				}
				draw(1)
				time.Sleep(2 * time.Minute)
				if got := stored(t, store); replaces.Load() < 4 || got == 2 {
					t.Fatalf("stored %d after %d writes, want writes after the return", got, replaces.Load())
				}
				for range 150 {
					draw(1)
				}
				other := newGenerator(t, store, nil)
				for range 150 {
					n := next(t, other)
					y.add(99, ids.Range{First: n, Last: n})
				}
				closeNow(other)
				cancel()
				running.Wait()
				set.Close(t.Context())
				store.Wait()
			})
		})
	}
}
