package work

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
)

// TestCountTogether processes the parcels of a batch in many processes at once.
// All of them count in one row, and so they must neither write it for each
// parcel nor keep each other from it.
func TestCountTogether(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	for _, test := range []struct {
		processes, hands, parcels int
		maxEach                   float64 // requests for the row for each parcel
		maxTime                   time.Duration
	}{
		{1, 64, 320, 0.3, 15 * time.Second},
		{4, 16, 320, 1.3, 15 * time.Second},
		{32, 16, 1000, 2, 15 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			isSlow := false
			s := newSite(t, func(memory.Call) memory.Fault {
				if isSlow {
					return memory.Fault{Delay: 5 * time.Millisecond, Back: 5 * time.Millisecond}
				}
				return memory.Fault{}
			}, 0)
			var items []string
			for i := range test.parcels {
				items = append(items, item(i, fmt.Sprint(500+rand.N(1000), "ms")))
			}
			d, err := s.start(nil, nil).submit(t.Context(), items, 1)
			if err != nil {
				t.Fatal(err)
			}
			var messages []queue.Message
			for _, name := range []string{"work-0", "work-1", "work-2", "work-3"} {
				messages = append(messages, s.queues.All(name)...)
			}
			isSlow = true
			began, before := time.Now(), s.rows.Calls()
			var running sync.WaitGroup
			var mu sync.Mutex
			for range test.processes {
				in := s.start(nil, nil)
				for range test.hands {
					running.Go(func() {
						for {
							mu.Lock()
							if len(messages) == 0 {
								mu.Unlock()
								return
							}
							m := messages[0]
							messages = messages[1:]
							mu.Unlock()
							if err := in.Process(t.Context(), "work-0", Message{Text: m.Body}); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			running.Wait()
			took := time.Since(began)
			each := float64(s.rows.Calls()-before)/float64(test.parcels) - 1 // to insert the results
			t.Logf("figure: requests to count the results of a parcel, processes: %d, hands of each: %d (%.1f s for %d parcels of 1 s) | %.2f | ≤ %.2f",
				test.processes, test.hands, took.Seconds(), test.parcels, each, test.maxEach)
			if each > test.maxEach || took > test.maxTime {
				t.Errorf("%.2f requests for each parcel in %v", each, took)
			}
			if b, err := s.start(nil, nil).Get(t.Context(), d.ID); err != nil || b.State != Done || b.Done != len(items) {
				t.Errorf("batch %+v, %v", b, err)
			}
		})
	}
}

// TestCountAfterKill kills a process after it inserted the last results, before
// and after it counted them. The next delivery of the message completes the
// batch: it does not wait for the sweep.
func TestCountAfterKill(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, nil, 0)
			_, d := s.one(nil, item(1, ""))
			dying := s.start(&storetest.Killer{N: 4, After: after}, nil) // received, inserted, read the batch's row
			dying.handle(t.Context(), ExpressQueue, dying.receive(t, ExpressQueue), 1)
			if !dying.p.Dead() {
				t.Fatal("the process is alive")
			}
			l, err := s.start(nil, nil).base.Store.BatchRow(t.Context(), d.ID)
			if err != nil || (l.Done == 1) != after {
				t.Fatalf("killed after the count: %t; row %+v, %v", after, l, err)
			}
			time.Sleep(time.Minute) // its lease
			in := s.start(nil, nil)
			in.handle(t.Context(), ExpressQueue, in.receive(t, ExpressQueue), 1)
			s.check(d, []string{item(1, "")})
			if n := s.processor.calls["1"]; n != 1 {
				t.Errorf("the item was processed %d times", n)
			}
		})
	}
}
