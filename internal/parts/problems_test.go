package parts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/api"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/observe"
	"kennel/internal/storetest"
)

// TestLimitsOfSequences: nine tenths of the sequences of a process, or the last
// hundredth of a sequence, are a problem.
func TestLimitsOfSequences(t *testing.T) {
	storetest.OnlyInProve(t)
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(nil)
		set, err := ids.NewSet(store, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { set.Run(ctx) })
		defer func() { cancel(); running.Wait(); set.Close(t.Context()) }()
		s := &sequencePart{SequenceResource: api.SequenceResource{Sequences: set}}
		draw := func(name string) {
			t.Helper()
			if _, err := set.Next(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 8_999 {
			draw(fmt.Sprint("s", i))
		}
		if got := s.Problems(); len(got) > 0 {
			t.Errorf("problems %+v, want none", got)
		}
		store.Set("orders", fmt.Sprint(int64(ids.MaxExact)/1000*995))
		draw("orders")
		synctest.Wait()
		began := time.Now()
		for range 2 {
			got := s.Problems()
			if len(got) != 2 || got[0].Subject != "all sequences" || got[0].What != "This process uses 9000 of at most 10000 sequences." || !got[0].Since.Equal(began) ||
				got[1].Code != "limit_close" || got[1].Subject != "orders" || !strings.Contains(got[1].What, " of at most 9007199254740991 are reserved.") {
				t.Errorf("problems %+v, want both limits since %v", got, began)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(20 * time.Minute) // unused sequences are given up
		if got := s.Problems(); len(got) != 1 || got[0].Subject != "orders" {
			t.Errorf("problems %+v, want only that of orders", got)
		}
	})
}

// TestManyProblems: the problems of one code are limited, and the last one
// counts the others.
func TestManyProblems(t *testing.T) {
	var many []instances.Problem
	now := time.Now()
	for i := range 15 {
		many = append(many, instances.Problem{Subject: fmt.Sprintf("s%02d", i), What: "No.", Since: now.Add(-time.Duration(i))})
	}
	got := observe.Oldest(slices.Clone(many))
	if len(got) != observe.MaxSubjects || got[0].Subject != "s14" || got[9].Subject != "" || got[9].What != "There are 6 more. One of them: No." {
		t.Errorf("problems %+v, want nine and the number of the others", got)
	}
	if got := observe.Oldest(slices.Clone(many[:observe.MaxSubjects])); len(got) != observe.MaxSubjects || got[9].Subject != "s00" {
		t.Errorf("problems %+v, want all ten", got)
	}
}

// TestLimitOfGates: waiters at nine tenths of the gates that a process can
// watch are a problem.
func TestLimitOfGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates, err := gate.New(memory.NewValues(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		g := &gatePart{GateResource: api.GateResource{Gates: gates}}
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() { gates.Run(ctx) })
		for i := range 900 {
			if got := g.Problems(); len(got) > 0 {
				t.Fatalf("%d gates: problems %+v, want none", i, got)
			}
			waiting.Go(func() { gates.Wait(t.Context(), fmt.Sprint("g", i), gate.Now, 10*time.Second) })
			synctest.Wait()
		}
		if got := g.Problems(); len(got) != 1 || got[0].Code != "limit_close" || got[0].Subject != "all gates" || got[0].What != "This process has waiters at 900 of at most 1000 gates." {
			t.Errorf("900 gates: problems %+v, want the limit", got)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := g.Problems(); len(got) > 0 {
			t.Errorf("without waiters: problems %+v, want none", got)
		}
		cancel()
		waiting.Wait()
	})
}
