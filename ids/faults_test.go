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
	return number(t, mark.Text)
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
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
	restarts := storetest.Scale(50, 1000)
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
	// A read and a marker at the start; at most two ranges are reserved beyond
	// those that are used.
	if got, want := requestsFor(t, numbers), int64(2+numbers/1000+1); got > want {
		t.Errorf("%d requests for %d numbers, want at most %d", got, numbers, want)
	}
}

// requestsFor returns how many requests a node makes for this many numbers in
// ranges of 1,000. Stats must report the same.
func requestsFor(t testing.TB, numbers int) int64 {
	store := memory.NewSequences(nil)
	g := newGenerator(t, store, &ids.Options{RangeSize: 1000, MaxRangeSize: 1000})
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

// A deletion or a restoration is noticed by the next reservation of a node that
// has seen a higher number. The node then issues no number, not even those that
// it has available, until the sequence is raised.
func TestSequenceMustNotGoBack(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*memory.Sequences)
		want  error
	}{
		{"lowered by an operator", func(s *memory.Sequences) { s.Set("orders", "5") }, ids.ErrCorrupt},
		{"an older copy restored", func(s *memory.Sequences) { s.Restore("orders", ids.Mark{Text: "11", Known: true}.Value()) }, ids.ErrCorrupt},
		{"lowered with its metadata", func(s *memory.Sequences) { s.Restore("orders", ids.Mark{Text: "5", Peak: "21", Known: true}.Value()) }, ids.ErrCorrupt},
		{"deleted", func(s *memory.Sequences) { s.Delete("orders") }, ids.ErrMissing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewSequences(nil)
				other := newGenerator(t, store, &ids.Options{RangeSize: 10})
				next(t, other) // of 1 to 10
				g := newGenerator(t, store, &ids.Options{RangeSize: 10, MaxRangeSize: 10})
				next(t, g) // of 11 to 20
				tt.spoil(store)
				for want := int64(12); ; want++ {
					n, err := g.Next(t.Context())
					if errors.Is(err, tt.want) {
						break
					}
					if err != nil || n != want || n > 20 {
						t.Fatalf("Next = %d, %v, want the rest of the reserved numbers, then %v", n, err, tt.want)
					}
					synctest.Wait() // a reservation that this call starts ends before the next call
				}
				if s := g.Stats(); s.Available != 0 || s.Problem == "" {
					t.Errorf("after the error: %+v, want no available number and the problem", s)
				}
				if raised, err := ids.Raise(t.Context(), store, "orders", 1000, false); err != nil || !raised.Changed {
					t.Errorf("Raise = %+v, %v", raised, err)
				}
				if n := next(t, g); n != 1000 {
					t.Errorf("Next after the repair = %d, want 1000", n)
				}
				checkAccount(t, g.Stats())
				closeNow(g)
				closeNow(other)
			})
		})
	}
}

// A new node does not begin a deleted sequence again.
func TestMissingIsNotNew(t *testing.T) {
	store := memory.NewSequences(nil)
	g := newGenerator(t, store, nil)
	next(t, g)
	closeCleanly(t, g)
	store.Delete("orders")
	g = newGenerator(t, store, nil)
	if n, err := g.Next(t.Context()); !errors.Is(err, ids.ErrMissing) {
		t.Errorf("Next of a deleted sequence = %d, %v, want ErrMissing", n, err)
	}
	if _, ok := store.Get("orders"); ok {
		t.Error("the deleted sequence was begun again")
	}
}

// A node that has seen the number before another one returned numbers does not
// take this for a restoration.
func TestReturnedNumbersAreNotARestoration(t *testing.T) {
	var b *ids.Generator
	store := memory.NewSequences(&memory.Options{Fault: func(c memory.Call) memory.Fault {
		if c.Op == "Replace" && b != nil {
			closing := b
			b = nil
			closeCleanly(t, closing) // between the Load and the Replace of a
		}
		return memory.Fault{}
	}})
	returning := newGenerator(t, store, &ids.Options{RangeSize: 1000})
	next(t, returning)
	b = returning
	a := newGenerator(t, store, nil)
	if n := next(t, a); n != 2 {
		t.Errorf("Next = %d, want 2, which was returned", n)
	}
	closeCleanly(t, a)
}
