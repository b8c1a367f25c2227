package ids_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// distant is a store that takes 50 ms for each request.
func distant(memory.Call) memory.Fault {
	return memory.Fault{Delay: 25 * time.Millisecond, Back: 25 * time.Millisecond}
}

// 256 callers draw, think for 10 ms and draw again, for each size of a draw. A
// node reserves at most a million numbers per request, so it issues at most 20
// million a second.
func TestClosedLoop(t *testing.T) {
	const callers, thought, maxRate = 256, 10 * time.Millisecond, 20e6
	loops := time.Duration(storetest.Scale(1, 30)) * time.Second
	counts := []int{1, 5000}
	if storetest.Proving() {
		counts = []int{1, 64, 1000, 2000, 5000, 10_000}
	}
	for _, count := range counts {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewSequences(&memory.Options{Fault: distant})
				g := newGenerator(t, store, &ids.Options{MaxWait: 10 * time.Second})
				var ended atomic.Bool
				var failed atomic.Int64
				var calling sync.WaitGroup
				for range callers {
					calling.Go(func() {
						for !ended.Load() {
							if _, err := draw(t.Context(), g, count); err != nil {
								failed.Add(1)
							}
							time.Sleep(thought)
						}
					})
				}
				time.Sleep(5 * time.Second)
				warm := g.Stats().Issued
				time.Sleep(loops)
				rate := float64(g.Stats().Issued-warm) / loops.Seconds()
				ended.Store(true)
				calling.Wait()
				closeNow(g)
				store.Wait()

				allowed := min(callers*float64(count)/thought.Seconds(), maxRate)
				t.Logf("figure: %d callers, %d numbers at a time, storage 50 ms away | %.2f of the rate that ranges of 1,000,000 allow, %d errors | ≥ 0.9, 0 errors", callers, count, rate/allowed, failed.Load())
				if rate < 0.9*allowed || failed.Load() > 0 {
					t.Errorf("%.0f numbers/s and %d errors, want 0.9 × %.0f and 0", rate, failed.Load(), allowed)
				}
			})
		})
	}
}

// A steady demand in leases waits only at the start, and not in an outage.
func TestSteadyLeases(t *testing.T) {
	for _, tt := range []struct {
		count  int
		every  time.Duration
		outage time.Duration
		size   int64 // of the smallest range; 0: the default
	}{
		{500, 50 * time.Millisecond, 10 * time.Second, 0}, // 10,000 numbers/s
		{5000, time.Second, 10 * time.Second, 0},
		{10_000, time.Second, 10 * time.Second, 0},
		{700, time.Minute, 0, 0},
		{900, time.Minute, 0, 0},
		{700, time.Minute, 0, 1000}, // what is left of a range serves no lease
		{900, time.Minute, 0, 1000},
		{10_000, time.Hour, 0, 0},
	} {
		t.Run(fmt.Sprintf("%d every %v, ranges from %d", tt.count, tt.every, tt.size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var o outage
				store := memory.NewSequences(&memory.Options{Fault: o.fault})
				g := newGenerator(t, store, &ids.Options{RangeSize: tt.size})
				lease := func(d time.Duration) {
					for range d / tt.every {
						if _, err := g.Lease(t.Context(), tt.count); err != nil {
							t.Fatal(err)
						}
						time.Sleep(tt.every)
					}
				}
				lease(max(10*time.Second, 3*tt.every))
				warm := g.Stats().Waits
				lease(max(60*time.Second, 20*tt.every))
				calm := g.Stats().Waits
				o.down.Store(true)
				lease(tt.outage)
				o.down.Store(false)
				lease(max(10*time.Second, 3*tt.every))
				if end := g.Stats().Waits; calm > warm || end > calm {
					t.Errorf("%d calls waited after the start, and %d in and after an outage of %v, want 0", calm-warm, end-calm, tt.outage)
				}
				closeNow(g)
				store.Wait()
			})
		})
	}
}

// All leases that wait share one request.
func TestBurstOfLeases(t *testing.T) {
	for _, count := range []int{500, 1000, 2000, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewSequences(&memory.Options{Fault: distant})
			g := newGenerator(t, store, &ids.Options{MaxWait: 10 * time.Second})
			issued := newTally(t)
			var callers sync.WaitGroup
			for i := range 1000 {
				callers.Go(func() {
					r, err := g.Lease(t.Context(), count)
					if err != nil {
						t.Error(err)
						return
					}
					issued.add(i, ids.Range{First: r.First, Last: r.First})
				})
			}
			callers.Wait()
			synctest.Wait()
			if max := int64(4 + count*1000/1_000_000); store.Calls() > max+2 {
				t.Errorf("1,000 leases of %d took %d requests, want about %d", count, store.Calls(), max)
			}
			closeNow(g)
			store.Wait()
		})
	}
}

// One request for a thousand numbers, whatever their grouping.
func TestRequestsForLeases(t *testing.T) {
	storetest.OnlyInProve(t)
	worst := 0.0
	for _, count := range []int{1, 2, 7, 64, 100, 333, 499, 500, 501, 700, 900, 999, 1000, 1001, 1500, 1900, 2000, 3333, 5000, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewSequences(nil)
			g := newGenerator(t, store, &ids.Options{RangeSize: 1000, MaxRangeSize: 1000})
			const numbers = 1_000_000
			for range numbers / count {
				if _, err := draw(t.Context(), g, count); err != nil {
					t.Fatal(err)
				}
				if count >= 64 {
					synctest.Wait() // a reservation that this call starts ends before the next call
				}
			}
			synctest.Wait()
			perMillion := float64(store.Calls()) / float64(numbers/count*count) * 1e6
			worst = max(worst, perMillion)
			if perMillion > 1005 { // with the first range, the marker and two ranges in stock
				t.Errorf("%d at a time: %.1f requests per million numbers", count, perMillion)
			}
			closeNow(g)
			store.Wait()
		})
	}
	t.Logf("figure: requests per million numbers, the worst of 20 sizes of a draw, ranges of 1,000 | %.0f | ≤ 1,001 and 4 at the start", worst)
}

// After a night without demand, an outage that begins while the old demand
// returns is as well covered as before.
func TestDemandReturns(t *testing.T) {
	storetest.OnlyInProve(t)
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(&memory.Options{Fault: distant})
		g := newGenerator(t, store, nil)
		demand := func(d time.Duration) (fewest int64) {
			fewest = 1 << 60
			for i := range d / (10 * time.Millisecond) {
				for range 100 {
					next(t, g)
				}
				time.Sleep(10 * time.Millisecond)
				if i > 500 {
					fewest = min(fewest, g.Stats().Available)
				}
			}
			return fewest
		}
		demand(90 * time.Second)
		time.Sleep(10 * time.Hour)
		if fewest := demand(time.Minute); fewest < 10*10_000 {
			t.Errorf("only %.1f s of demand were available at a moment, want 10 s", float64(fewest)/10_000)
		}
		closeNow(g)
		store.Wait()
	})
}

func isExhausted(err error, requested int) bool {
	return errors.Is(err, ids.ErrExhausted) && strings.Contains(err.Error(), fmt.Sprintf("%d requested", requested))
}

// A lease that does not fit fails with its own numbers, and takes nothing from
// callers that need less.
func TestEndOfSequenceWithLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(&memory.Options{Fault: distant})
		store.Set("orders", "901")
		g := newGenerator(t, store, &ids.Options{Last: 1000, MaxWait: 10 * time.Second})
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() {
				if r, err := g.Lease(t.Context(), 500); !isExhausted(err, 500) {
					t.Errorf("Lease(500) of 100 left: %v, %v, want ErrExhausted for 500", r, err)
				}
			})
		}
		callers.Go(func() {
			if n, err := g.Next(t.Context()); err != nil || n < 901 || n > 1000 {
				t.Errorf("Next = %d, %v", n, err)
			}
		})
		callers.Wait()
		if store.Calls() > 10 {
			t.Errorf("%d requests for leases that cannot fit, want one answer for all", store.Calls())
		}
		closeNow(g)
		store.Wait()
	})
}

// Callers that wait are served in the order in which they came: under more
// leases than the store can serve, a single number waits for few requests.
func TestNoCallerStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(&memory.Options{Fault: distant})
		g := newGenerator(t, store, &ids.Options{MaxRangeSize: 1000})
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				for ctx.Err() == nil {
					g.Lease(ctx, 500)
				}
			})
		}
		time.Sleep(time.Second)
		for range 10 {
			asked := time.Now()
			next(t, g)
			if took := time.Since(asked); took > 2*time.Second { // 64 leases of 500, in 16 to 32 requests
				t.Errorf("a number took %v", took)
			}
		}
		cancel()
		callers.Wait()
		closeNow(g)
		store.Wait()
	})
}

// A lease that does not fit what is left takes nothing from callers behind it,
// even if it came after the request for the rest of the sequence was sent.
func TestLateLeaseAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(&memory.Options{Fault: distant})
		store.Set("orders", "901")
		g := newGenerator(t, store, &ids.Options{Last: 1000})
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
		defer cancel()
		var callers sync.WaitGroup
		callers.Go(func() { g.Next(ctx) }) // after the read, the write is on its way
		time.Sleep(65 * time.Millisecond)
		callers.Go(func() {
			if _, err := g.Lease(t.Context(), 500); !isExhausted(err, 500) {
				t.Errorf("Lease(500) of 100 left: %v, want ErrExhausted", err)
			}
		})
		synctest.Wait()
		for _, n := range []int{1, 10} {
			callers.Go(func() {
				if _, err := draw(t.Context(), g, n); err != nil {
					t.Errorf("draw of %d of 100 left: %v", n, err)
				}
			})
		}
		callers.Wait()
		closeNow(g)
		store.Wait()
	})
}
