package ids_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"

	"kennel/ids"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// bothWays are the two ways in which a write fails.
var bothWays = map[string]func(n int64, err error) func(memory.Call) memory.Fault{
	"refused":                        memory.RefuseNth,
	"applied but reported as failed": memory.LoseReplyNth,
}

func stored(t testing.TB, store *memory.Sequences) int64 {
	t.Helper()
	mark, _ := store.Get("orders")
	n, err := strconv.ParseInt(mark.Text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLostReply makes each request of a node fail in turn, in both ways. A
// single node loses no number.
func TestLostReply(t *testing.T) {
	for n := int64(1); n <= 6; n++ {
		for name, nth := range bothWays {
			t.Run(fmt.Sprintf("request %d %s", n, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { loseReply(t, nth(n, errLost)) })
			})
		}
	}
}

func loseReply(t *testing.T, fault func(memory.Call) memory.Fault) {
	store := memory.NewSequences(&memory.Options{Fault: fault})
	want := int64(1)
	for range 2 { // two generators, so that the write of Close fails too
		g := newGenerator(t, store, &ids.Options{RangeSize: 10, MaxRangeSize: 10})
		for range 17 {
			if got := next(t, g); got != want {
				t.Fatalf("Next = %d, want %d", got, want)
			}
			want++
		}
		synctest.Wait()
		err := g.Close(t.Context())
		if err == nil {
			if s := g.Stats(); s.Lost > 0 {
				t.Errorf("lost %d numbers", s.Lost)
			}
			continue
		}
		at := stored(t, store)
		if !errors.Is(err, errLost) || at != want && at != 31 {
			t.Errorf("Close: %v; the store has %d, want %d or 31", err, at, want)
		}
		want = at
	}
}

// Clean restarts of a single node lose no number. A kill at any moment loses at
// most two ranges.
func TestRestarts(t *testing.T) {
	store := memory.NewSequences(nil)
	restarts := storetest.Scale(100, 1000)
	want := int64(1)
	for range restarts {
		g := newGenerator(t, store, nil)
		for range rand.IntN(2500) {
			if n := next(t, g); n != want {
				t.Fatalf("Next = %d, want %d", n, want)
			}
			want++
		}
		closeCleanly(t, g)
	}
	t.Logf("figure: numbers lost in clean stops and starts (%d, and %d numbers) | %d | 0", restarts, want-1, stored(t, store)-want)
	worst, kills := int64(0), storetest.Scale(50, 200)
	for range kills {
		g := newGenerator(t, store, &ids.Options{MaxRangeSize: 1000})
		last := int64(0)
		for range 1 + rand.IntN(5000) {
			last = next(t, g)
		}
		closeNow(g)
		worst = max(worst, stored(t, store)-1-last)
	}
	t.Logf("figure: numbers lost by one kill, at most, ranges of 1,000 (%d kills) | %d | ≤ 2,000", kills, worst)
	if worst > 2000 {
		t.Errorf("a kill lost %d numbers, want at most two ranges of 1000", worst)
	}
}

// A node makes one write per range, and one read at the start.
func TestRequests(t *testing.T) {
	const numbers = 1_000_000
	// At most two ranges are reserved beyond those that are used.
	if got, want := requestsFor(t, numbers), int64(1+numbers/1000+1); got > want {
		t.Errorf("%d requests for %d numbers, want at most %d", got, numbers, want)
	}
}

// requestsFor returns how many requests a node makes for this many numbers in
// ranges of 1,000. Stats must report the same.
func requestsFor(t testing.TB, numbers int) int64 {
	store := memory.NewSequences(nil)
	g := newGenerator(t, store, &ids.Options{MaxRangeSize: 1000})
	ctx := t.Context()
	for range numbers {
		if _, err := g.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	requests := store.Calls()
	closeCleanly(t, g)
	if got := g.Stats().Requests; got != store.Calls() {
		t.Errorf("the store received %d requests, Stats report %d", store.Calls(), got)
	}
	return requests
}

// After Raise, every node issues at most one range more below the floor,
// although it may have two ranges available.
func TestRaiseWhileNodesRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(nil)
		nodes := make([]*ids.Generator, 20)
		draw := func(g *ids.Generator) int64 {
			defer synctest.Wait() // a reservation that this call starts ends before the next call
			return next(t, g)
		}
		for i := range nodes {
			nodes[i] = newGenerator(t, store, &ids.Options{RangeSize: 100, MaxRangeSize: 100})
			for range 30 + 7*i {
				draw(nodes[i])
			}
		}
		const floor = 1_000_000
		if err := ids.Raise(t.Context(), store, "orders", floor); err != nil {
			t.Fatal(err)
		}
		for i, g := range nodes {
			below := 0
			for range 300 {
				if draw(g) < floor {
					below++
				}
			}
			if below > 100 {
				t.Errorf("node %d issued %d more numbers below the floor, want at most a range of 100", i, below)
			}
			checkAccount(t, g.Stats())
		}
	})
}

func TestRaise(t *testing.T) {
	store := memory.NewSequences(nil)
	store.Set("broken", "12x")
	for _, tt := range []struct {
		name, sequence string
		to             int64
		want           error
	}{
		{"a new sequence", "orders", 500, nil},
		{"to its next number", "orders", 500, nil},
		{"to a lower number", "orders", 499, ids.ErrLower},
		{"to a higher number", "orders", 600, nil},
		{"a corrupt sequence", "broken", 5, ids.ErrCorrupt},
	} {
		if err := ids.Raise(t.Context(), store, tt.sequence, tt.to); !errors.Is(err, tt.want) {
			t.Errorf("Raise of %s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if ids.Raise(t.Context(), store, "orders", -1) == nil || ids.Raise(t.Context(), store, "no/such", 1) == nil {
		t.Error("Raise to a negative number or with an invalid name succeeded")
	}
	if n := next(t, newGenerator(t, store, nil)); n != 600 {
		t.Errorf("Next = %d, want 600", n)
	}
	if err := ids.Raise(t.Context(), store, "orders", 600); err != nil { // its floor
		t.Errorf("Raise again: %v", err)
	}
}

// A Raise that failed may have been applied. Repeating it succeeds in both
// cases.
func TestRaiseWithLostReply(t *testing.T) {
	for name, nth := range bothWays {
		store := memory.NewSequences(&memory.Options{Fault: nth(2, errLost)})
		for _, want := range []error{errLost, nil} {
			if err := ids.Raise(t.Context(), store, "orders", 500); !errors.Is(err, want) {
				t.Errorf("%s: Raise: %v, want %v", name, err, want)
			}
		}
		if m, _ := store.Get("orders"); m.Text != "500" || m.Floor != "500" {
			t.Errorf("%s: stored %q with floor %q, want 500", name, m.Text, m.Floor)
		}
	}
}

// It is an error if the blob's number goes down or the blob is deleted while a
// node runs: other nodes may hold the numbers in between.
func TestSequenceMustNotGoBack(t *testing.T) {
	for name, spoil := range map[string]func(*memory.Sequences){
		"lowered by an operator": func(s *memory.Sequences) { s.Set("orders", "5") },
		"deleted":                func(s *memory.Sequences) { s.Delete("orders") },
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.NewSequences(nil)
			g := newGenerator(t, store, &ids.Options{RangeSize: 10, MaxRangeSize: 10})
			for want := int64(1); ; want++ {
				n, err := g.Next(t.Context())
				if want > 10 && errors.Is(err, ids.ErrCorrupt) {
					break
				}
				if err != nil || n != want || n > 20 {
					t.Fatalf("Next = %d, %v, want the rest of the reserved numbers, then ErrCorrupt", n, err)
				}
				if want == 1 {
					spoil(store)
				}
			}
			store.Set("orders", "1000") // an operator repairs it
			if n := next(t, g); n != 1000 {
				t.Errorf("Next after the repair = %d, want 1000", n)
			}
		})
	}
}
