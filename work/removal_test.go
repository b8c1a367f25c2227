package work

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/work/internal/format"
)

// TestGatherStale gathers in a process whose copy of the batch's row is older than
// the last result, which another process counted before it was killed.
func TestGatherStale(t *testing.T) {
	t.Parallel()
	body, items := someLines(3)
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		submitter := s.start(nil, nil)
		batch, _, err := submitter.send("", body)
		if err != nil {
			t.Fatal(err)
		}
		worker := s.start(nil, nil)
		message := s.queues.All(ExpressQueue)[0]
		if err := worker.Process(t.Context(), ExpressQueue, Message{Text: message.Body}); err != nil {
			t.Fatal(err)
		}
		_, err = worker.base.Store.Change(t.Context(), batch.ID, func(l *format.BatchRow) bool {
			added, err := l.Add(format.ResultRow{Done: len(items)})
			return added && err == nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s.lose(ExpressQueue)
		time.Sleep(3 * time.Minute)
		if _, err := submitter.sweep(); err != nil {
			t.Fatal(err)
		}
		if b, err := submitter.Get(t.Context(), batch.ID); err != nil || b.State != Done {
			t.Errorf("batch %+v, %v, want it done", b, err)
		}
	})
}

// TestRemovedStale processes a redriven message of a batch that was removed, in
// a process whose copy of the batch's row has its results. Nothing may be left.
func TestRemovedStale(t *testing.T) {
	t.Parallel()
	body, _ := someLines(3)
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in := s.start(nil, nil)
		if _, _, err := in.send("", body); err != nil {
			t.Fatal(err)
		}
		redriven := s.queues.All(ExpressQueue)[0].Body
		in.drain()
		time.Sleep(31 * 24 * time.Hour)
		if swept, err := s.start(nil, nil).sweep(); err != nil || swept.Removed != 1 {
			t.Fatalf("swept %+v, %v", swept, err)
		}
		if err := in.put(t.Context(), ExpressQueue, redriven, 0); err != nil {
			t.Fatal(err)
		}
		in.drain()
		if n := s.rows.Rows(""); n > 0 {
			t.Errorf("%d rows are left of a batch that was removed", n)
		}
	})
}

// TestRemovedRedriven processes a redriven message at each request of the sweep
// that removes its batch, and collects its results there or soon after. Nothing may
// be left.
func TestRemovedRedriven(t *testing.T) {
	t.Parallel()
	body, _ := someLines(3)
	run := func(process, collect int) (requests int) {
		synctest.Test(t, func(t *testing.T) {
			sweeping := false
			var steps map[int]func()
			s := newSite(t, func(memory.Call) memory.Fault {
				if !sweeping {
					return memory.Fault{}
				}
				requests++
				if step := steps[requests]; step != nil {
					sweeping = false
					step()
					sweeping = true
				}
				return memory.Fault{}
			}, 0)
			in := s.start(nil, nil)
			if _, _, err := in.send("k", body); err != nil {
				t.Fatal(err)
			}
			redriven := Message{Text: s.queues.All(ExpressQueue)[0].Body}
			in.drain()
			time.Sleep(31 * 24 * time.Hour)
			steps = map[int]func(){
				process: func() {
					if err := in.Process(t.Context(), ExpressQueue, redriven); err != nil {
						t.Error(err)
					}
				},
				collect: in.drain,
			}
			if process == collect {
				first := steps[process]
				steps[process] = func() { first(); in.drain() }
			}
			sweeping = true
			if _, err := s.start(nil, nil).sweep(); err != nil {
				t.Error(err)
			}
			sweeping = false
			in.drain()
			if n := s.rows.Rows(""); n > 0 {
				t.Errorf("process at request %d of the removal, collect at %d: %d rows are left", process, collect, n)
			}
		})
		return requests
	}
	requests := run(0, 0)
	for process := 1; process <= requests; process++ {
		for collect := process; collect <= min(process+2, requests+1); collect++ {
			run(process, collect)
		}
	}
}

// TestResultsMissing lists results of a batch that is only recorded, and of one
// that is removed between two pages.
func TestResultsMissing(t *testing.T) {
	t.Parallel()
	body, _ := someLines(3)
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		ctx := timed(t, 40*24*time.Hour)
		s.start(&storetest.Killer{N: 2, After: true}, nil).send("", body)
		in := s.start(nil, nil)
		active, err := in.base.Store.Rows.Query(ctx, table.Query{Partition: format.ActiveIn, Top: 1})
		if err != nil || len(active.Rows) != 1 {
			t.Fatal(active, err)
		}
		id := active.Rows[0].Key
		if list, err := in.Results(ctx, id, Page{Top: 2}); err != nil || len(list.Items) > 0 {
			t.Errorf("results of a batch that is recorded: %+v, %v, want none", list, err)
		}
		s.settle()
		first, err := in.Results(ctx, id, Page{Top: 2})
		if err != nil || len(first.Items) != 2 {
			t.Fatalf("%+v, %v", first, err)
		}
		s.removed()
		if list, err := in.Results(ctx, id, Page{Top: 2, Continuation: first.Continuation}); !errors.Is(err, ErrNotFound) {
			t.Errorf("the second page of a batch that was removed: %+v, %v, want %v", list, err, ErrNotFound)
		}
	})
}
