package ids_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/memory"
)

func TestRaise(t *testing.T) {
	store := memory.NewSequences(nil)
	store.Set("broken", "12x")
	for _, tt := range []struct {
		name, sequence string
		to             int64
		force          bool
		want           ids.Raised
		err            error
	}{
		{"a new sequence", "orders", 500, false, ids.Raised{Next: 500, Changed: true}, nil},
		{"to its next number", "orders", 500, false, ids.Raised{Next: 500}, nil},
		{"to a lower number", "orders", 499, true, ids.Raised{Next: 500}, nil},
		{"to a higher number", "orders", 600, false, ids.Raised{Next: 600, Changed: true}, nil},
		{"a corrupt sequence", "broken", 5, false, ids.Raised{}, ids.ErrCorrupt},
		{"a corrupt sequence by force", "broken", 5, true, ids.Raised{Next: 5, Changed: true}, nil},
	} {
		got, err := ids.Raise(t.Context(), store, tt.sequence, tt.to, tt.force)
		if !errors.Is(err, tt.err) || got != tt.want {
			t.Errorf("Raise of %s: %+v, %v, want %+v, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
	for sequence, to := range map[string]int64{"orders": -1, "others": ids.MaxExact + 1, "no/such": 1} {
		if _, err := ids.Raise(t.Context(), store, sequence, to, true); err == nil {
			t.Errorf("Raise of %s to %d succeeded", sequence, to)
		}
	}
	if n := next(t, newGenerator(t, store, nil)); n != 600 {
		t.Errorf("Next = %d, want 600", n)
	}
}

// A write of Raise whose reply is lost is found, or repeated.
func TestRaiseWithLostReply(t *testing.T) {
	for name, nth := range bothWays {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewSequences(&memory.Options{Fault: nth(2, errLost)})
				raised, err := ids.Raise(t.Context(), store, "orders", 500, false)
				if m, _ := store.Get("orders"); err != nil || raised != (ids.Raised{Next: 500, Changed: true}) || m.Text != "500" {
					t.Errorf("Raise = %+v, %v; stored %q", raised, err, m.Text)
				}
			})
		})
	}
}

// A raise that loses every race ends with its context and has paused between
// its tries.
func TestRaiseDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(&memory.Options{Fault: func(c memory.Call) memory.Fault {
			if c.Op == "Replace" {
				return memory.Fault{Err: ids.ErrChanged, Lost: true}
			}
			return memory.Fault{}
		}})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := ids.Raise(ctx, store, "orders", 500, false); !errors.Is(err, ids.ErrChanged) {
			t.Errorf("Raise: %v, want ErrChanged", err)
		}
		if calls := store.Calls(); calls > 60 {
			t.Errorf("%d requests in 10 s", calls)
		}
	})
}

// A peak survives a raise below it: a node that saw it goes on above it.
func TestRaiseAfterReturnKeepsPeak(t *testing.T) {
	store := memory.NewSequences(nil)
	a := newGenerator(t, store, &ids.Options{RangeSize: 1000})
	next(t, a)
	closeCleanly(t, a) // returns 2 to 1000
	if _, err := ids.Raise(t.Context(), store, "orders", 500, false); err != nil {
		t.Fatal(err)
	}
	if m, _ := store.Get("orders"); m.Text != "500" || ids.MarkOf(m).Peak != "1001" || !ids.MarkOf(m).Known {
		t.Errorf("stored %+v, want 500 with the peak 1001, known", m)
	}
}

// A write that arrives late may create a deleted sequence again. After a raise
// has repaired that, its node does not issue what it reserved: another node may
// have, before the deletion.
func TestRaiseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var isLate atomic.Bool
		store := memory.NewSequences(&memory.Options{Fault: func(c memory.Call) memory.Fault {
			if c.Op == "Replace" && isLate.CompareAndSwap(true, false) {
				return memory.Fault{Err: errLost, After: 5 * time.Second}
			}
			return memory.Fault{}
		}})
		late, other := newGenerator(t, store, nil), newGenerator(t, store, nil)
		isLate.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		late.Next(ctx)
		cancel()
		synctest.Wait()
		y := newTally(t)
		for range 5 {
			n := next(t, other)
			y.add(1, ids.Range{First: n, Last: n})
		}
		store.Delete("orders")
		time.Sleep(6 * time.Second)
		if got := stored(t, store); got != 11 {
			t.Fatalf("stored %d, want what the late write stores", got)
		}
		if _, err := ids.Raise(t.Context(), store, "orders", 1000, false); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			n := next(t, late)
			y.add(2, ids.Range{First: n, Last: n})
		}
		closeNow(late)
		closeNow(other)
		store.Wait()
	})
}
