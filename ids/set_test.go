package ids_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

func newSet(t testing.TB, store ids.Store, o *ids.Options) *ids.Set {
	t.Helper()
	set, err := ids.NewSet(store, o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Sets share no generators, although their sequences have the same name. They
// make no request before the first number.
func TestSets(t *testing.T) {
	if _, err := ids.NewSet(memory.NewSequences(nil), &ids.Options{First: -1}); err == nil {
		t.Error("NewSet with invalid options succeeded")
	}
	sets := make([]*ids.Set, 2)
	for i := range sets {
		store := memory.NewSequences(nil)
		set := newSet(t, store, nil)
		sets[i] = set
		if got := store.Calls(); got != 0 {
			t.Errorf("NewSet made %d requests, want 0", got)
		}
		if n, err := set.Next(t.Context(), "orders"); n != 1 || err != nil {
			t.Errorf("first number of a new store = %d, %v, want 1", n, err)
		}
		if r, err := set.Lease(t.Context(), "orders", 3); r != (ids.Range{First: 2, Last: 4}) || err != nil {
			t.Errorf("Lease = %v, %v, want 2–4", r, err)
		}
		if got := set.Stats(); len(got) != 1 || got["orders"].Issued != 4 {
			t.Errorf("Stats = %+v, want four numbers of orders", got)
		}
		if _, err := set.Next(t.Context(), "no/such"); err == nil {
			t.Error("Next with an invalid name succeeded")
		}
	}
	for _, set := range sets {
		if err := set.Close(t.Context()); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"orders", "other"} {
			if _, err := set.Next(t.Context(), name); !errors.Is(err, ids.ErrClosed) {
				t.Errorf("Next of %s after Close: %v, want ErrClosed", name, err)
			}
		}
	}
}

// Made-up names lock out no sequence: the one that was not used for longest is
// given up, and its numbers go back to the store.
func TestMadeUpNames(t *testing.T) {
	storetest.OnlyInProve(t)
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(nil)
		set := newSet(t, store, nil)
		for i := range 10_050 {
			if n, err := set.Next(t.Context(), fmt.Sprintf("m%05d", i)); n != 1 || err != nil {
				t.Fatalf("name %d: %d, %v, want 1", i, n, err)
			}
			if n, err := set.Next(t.Context(), "orders"); n != int64(i+1) || err != nil {
				t.Fatalf("orders = %d, %v, want %d", n, err, i+1)
			}
			synctest.Wait()
		}
		if got := len(set.Stats()); got != 10_000 {
			t.Errorf("%d sequences in use, want 10,000", got)
		}
		if m, _ := store.Get("m00000"); m.Text != "2" {
			t.Errorf("m00000 was given up at %q, want its numbers returned", m.Text)
		}
		if n, err := set.Next(t.Context(), "m00000"); n != 2 || err != nil {
			t.Errorf("m00000 used again: %d, %v, want 2", n, err)
		}
		set.Close(t.Context())
	})
}

// A sequence that is not used any more is given up; one in use is not. Calls
// that meet it at this moment go on with a new generator.
func TestIdleSequences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(nil)
		set := newSet(t, store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { set.Run(ctx) })
		set.Next(ctx, "idle")
		for range 60 {
			time.Sleep(time.Minute)
			set.Next(ctx, "orders")
		}
		if got := set.Stats(); len(got) != 1 || got["orders"].Issued != 60 {
			t.Errorf("after an hour: %+v, want orders only", got)
		}
		if m, _ := store.Get("idle"); m.Text != "2" {
			t.Errorf("the idle sequence is at %q, want its numbers returned", m.Text)
		}
		issued := newTally(t)
		var callers sync.WaitGroup
		for i := range 50 {
			callers.Go(func() {
				for range 20 {
					time.Sleep(10*time.Minute + time.Duration(i)*time.Millisecond)
					n, err := set.Next(ctx, "orders")
					if err != nil {
						t.Error(err)
					}
					issued.add(i, ids.Range{First: n, Last: n})
				}
			})
		}
		callers.Wait()
		cancel()
		running.Wait()
		if err := set.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// When ctx of Run ends, callers that wait get ErrClosed at once, and available
// numbers are still issued.
func TestRunEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outage
		store := memory.NewSequences(&memory.Options{Fault: o.fault})
		set := newSet(t, store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { set.Run(ctx) })
		set.Next(ctx, "orders")
		o.down.Store(true)
		for _, draw := range []func() error{
			func() error { _, err := set.Next(t.Context(), "new"); return err },
			func() error { _, err := set.Lease(t.Context(), "orders", 5000); return err },
		} {
			running.Go(func() {
				if err := draw(); !errors.Is(err, ids.ErrClosed) {
					t.Errorf("a waiting call: %v, want ErrClosed", err)
				}
			})
		}
		time.Sleep(time.Second)
		cancel()
		running.Wait()
		if n, err := set.Next(t.Context(), "orders"); n != 2 || err != nil {
			t.Errorf("Next = %d, %v, want the available number 2", n, err)
		}
		o.down.Store(false)
		set.Close(t.Context())
	})
}

// Generators do not retry for callers that gave up: an hour after the last call,
// generators of a store that fails send no request.
func TestNoRequestsWithoutCallers(t *testing.T) {
	for name, fail := range map[string]error{"fails": errLost, "refuses": ids.ErrRefused} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				down := false
				store := memory.NewSequences(&memory.Options{Fault: func(memory.Call) memory.Fault {
					if down {
						return memory.Fault{Err: fail, Lost: true}
					}
					return memory.Fault{}
				}})
				set := newSet(t, store, &ids.Options{MaxWait: 10 * time.Second})
				for i := range 100 {
					set.Next(t.Context(), "used"+strconv.Itoa(i))
				}
				down = true
				var callers sync.WaitGroup
				for i := range 100 {
					callers.Go(func() { set.Next(t.Context(), "new"+strconv.Itoa(i)) })
					callers.Go(func() { set.Lease(t.Context(), "used"+strconv.Itoa(i), 600) })
				}
				callers.Wait()
				time.Sleep(time.Minute)
				before := store.Calls()
				time.Sleep(time.Hour)
				if n := store.Calls() - before; n > 0 {
					t.Errorf("%d requests in the hour after the last call", n)
				}
				set.Close(t.Context())
			})
		})
	}
}

// A refusal reaches its callers at once, and is remembered for a second.
func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuses := true
		store := memory.NewSequences(&memory.Options{Fault: func(memory.Call) memory.Fault {
			if refuses {
				return memory.Fault{Delay: 20 * time.Millisecond, Err: ids.ErrRefused, Lost: true}
			}
			return memory.Fault{}
		}})
		g := newGenerator(t, store, nil)
		began := time.Now()
		for range 1000 {
			if _, err := g.Next(t.Context()); !errors.Is(err, ids.ErrRefused) {
				t.Fatalf("Next: %v, want ErrRefused", err)
			}
		}
		if took := time.Since(began); took > 20*time.Millisecond || store.Calls() != 1 {
			t.Errorf("1,000 refused calls took %v and %d requests, want one", took, store.Calls())
		}
		refuses = false
		time.Sleep(time.Second)
		if n := next(t, g); n != 1 {
			t.Errorf("Next after the repair = %d", n)
		}
		closeCleanly(t, g)
	})
}

// A sequence that was restored from an older copy stays stopped, although it is
// not used for a long time and other sequences are.
func TestRestoreIsNotForgotten(t *testing.T) {
	storetest.OnlyInProve(t)
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(nil)
		set := newSet(t, store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { set.Run(ctx) })
		set.Next(ctx, "orders")
		store.Set("orders", "1")
		if _, err := set.Lease(ctx, "orders", 5000); !errors.Is(err, ids.ErrCorrupt) {
			t.Fatalf("after the restore: %v, want ErrCorrupt", err)
		}
		set.Next(ctx, "older")
		time.Sleep(time.Hour)
		for i := range 10_010 {
			set.Next(ctx, "m"+strconv.Itoa(i))
			synctest.Wait()
		}
		if n, err := set.Next(ctx, "orders"); !errors.Is(err, ids.ErrCorrupt) {
			t.Errorf("an hour later: %d, %v, want ErrCorrupt", n, err)
		}
		if _, ok := set.Stats()["older"]; ok {
			t.Error("a sequence before it was not given up")
		}
		cancel()
		running.Wait()
		set.Close(t.Context())
	})
}

// A sequence for which a caller waits is not given up: the caller would begin
// its wait again.
func TestWaitEndsInTime(t *testing.T) {
	storetest.OnlyInProve(t)
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(&memory.Options{Fault: func(c memory.Call) memory.Fault { return memory.Fault{Lost: c.Key == "slow"} }})
		set := newSet(t, store, &ids.Options{MaxWait: 10 * time.Second})
		var calling sync.WaitGroup
		calling.Go(func() {
			began := time.Now()
			if _, err := set.Next(t.Context(), "slow"); !errors.Is(err, ids.ErrUnavailable) || time.Since(began) > 10*time.Second {
				t.Errorf("Next ended after %v: %v, want ErrUnavailable after 10 s", time.Since(began), err)
			}
		})
		time.Sleep(5 * time.Second)
		for i := range 10_010 {
			set.Next(t.Context(), "m"+strconv.Itoa(i))
			synctest.Wait()
		}
		calling.Wait()
		set.Close(t.Context())
	})
}

// Close ends with its context, although sequences that were given up before
// still return their numbers.
func TestCloseEndsInTime(t *testing.T) {
	storetest.OnlyInProve(t)
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		store := memory.NewSequences(&memory.Options{Fault: func(memory.Call) memory.Fault { return memory.Fault{Lost: hangs.Load()} }})
		set := newSet(t, store, &ids.Options{MaxWait: time.Millisecond})
		for i := range 10_000 {
			set.Next(t.Context(), "m"+strconv.Itoa(i))
		}
		hangs.Store(true)
		for i := range 20 {
			set.Next(t.Context(), "new"+strconv.Itoa(i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		set.Close(ctx)
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v, want 1 s", took)
		}
	})
}

// Recent returns the sequences in the order of their last use.
func TestRecent(t *testing.T) {
	s, err := ids.NewSet(memory.NewSequences(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	for _, sequence := range []string{"a", "b", "c", "a"} {
		if _, err := s.Next(t.Context(), sequence); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int]string{0: "", 2: "a2 c1 ", 9: "a2 c1 b1 "} {
		got := ""
		for _, used := range s.Recent(n) {
			got += fmt.Sprintf("%s%d ", used.Sequence, used.Issued)
		}
		if got != want {
			t.Errorf("the %d most recent: %q, want %q", n, got, want)
		}
	}
}
