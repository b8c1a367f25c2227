package ids_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/memory"
)

func TestNewMakesNoRequest(t *testing.T) {
	store := memory.NewSequences(nil)
	newGenerator(t, store, nil)
	if got := store.Calls(); got != 0 {
		t.Errorf("New made %d requests, want 0", got)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, sequence string
		options        ids.Options
		want           string
	}{
		{"empty name", "", ids.Options{}, "1 to 63"},
		{"long name", strings.Repeat("a", 64), ids.Options{}, "64 characters"},
		{"upper case", "Orders", ids.Options{}, "lower-case"},
		{"slash", "a/b", ids.Options{}, "lower-case"},
		{"hyphen first", "-a", ids.Options{}, "inner hyphens"},
		{"hyphen last", "a-", ids.Options{}, "inner hyphens"},
		{"not ASCII", "größe", ids.Options{}, "lower-case"},
		{"negative first", "a", ids.Options{First: -1}, "Options.First"},
		{"last before first", "a", ids.Options{First: 5, Last: 4}, "Options.Last"},
		{"no room for one past the last", "a", ids.Options{Last: 1<<63 - 1}, "Options.Last"},
		{"negative range", "a", ids.Options{RangeSize: -1}, "Options.RangeSize"},
		{"a range that overflows", "a", ids.Options{RangeSize: 1<<40 + 1}, "Options.RangeSize"},
		{"most below least", "a", ids.Options{RangeSize: 10, MaxRangeSize: 9}, "Options.MaxRangeSize"},
		{"negative duration", "a", ids.Options{RangeLasts: -1}, "Options.RangeLasts"},
		{"negative timeout", "a", ids.Options{CallTimeout: -1}, "Options.CallTimeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ids.New(memory.NewSequences(nil), tt.sequence, &tt.options)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: %v, want an error with %q", err, tt.want)
			}
		})
	}
	for _, name := range []string{"a", "0", "a-b", "orders-2026", strings.Repeat("a", 63)} {
		if err := ids.CheckName(name); err != nil {
			t.Errorf("CheckName(%q): %v", name, err)
		}
	}
}

// What other programs and people may have left in the blob.
func TestStoredTexts(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int64 // 0: ErrCorrupt
	}{
		{"7", 7}, {"7\n", 7}, {"7\r\n ", 7}, {"\ufeff7", 7}, {"\ufeff7\n", 7},
		{"", 0}, {" ", 0}, {"\ufeff", 0}, {"12x", 0}, {"-1", 0}, {"+7", 0}, {" 7", 0}, {"07", 0}, {"7\ufeff", 0},
		{"7.0", 0}, {"1e3", 0}, {"0x10", 0}, {"1,000", 0}, {"1_000", 0}, {"٧", 0},
		{"9223372036854775808", 0}, {strings.Repeat("9", 200), 0}, {"7\x00", 0}, {"null", 0},
	} {
		t.Run(fmt.Sprintf("%.20q", tt.text), func(t *testing.T) {
			store := memory.NewSequences(nil)
			store.Set("orders", tt.text)
			g := newGenerator(t, store, nil)
			for range 2 { // the article's sample threw once, and then counted from 1
				n, err := g.Next(t.Context())
				switch {
				case tt.want == 0 && !errors.Is(err, ids.ErrCorrupt):
					t.Errorf("Next = %d, %v, want ErrCorrupt", n, err)
				case tt.want == 0 && len(err.Error()) > 300:
					t.Errorf("the message has %d characters", len(err.Error()))
				case tt.want != 0 && (err != nil || n != tt.want):
					t.Errorf("Next = %d, %v, want %d", n, err, tt.want)
				}
				tt.want += min(tt.want, 1)
			}
			if mark, _ := store.Get("orders"); tt.want == 0 && mark.Text != tt.text {
				t.Errorf("the text was changed to %q", mark.Text)
			}
		})
	}
}

// A sequence ends with its very last number, however ranges fall, and stays
// ended.
func TestExhaustedExactly(t *testing.T) {
	for _, last := range []int64{1, 2, 9, 10, 11, 25, ids.MaxExact, 1<<63 - 2, 1<<40 - 1<<24} {
		t.Run(fmt.Sprint(last), func(t *testing.T) {
			store := memory.NewSequences(nil)
			first := max(1, last-24)
			store.Set("orders", fmt.Sprint(first))
			nodes := []*ids.Generator{
				newGenerator(t, store, &ids.Options{Last: last, RangeSize: 10}),
				newGenerator(t, store, &ids.Options{Last: last, RangeSize: 3}),
			}
			seen := make(map[int64]bool)
			for done := 0; done < len(nodes); {
				done = 0
				for _, g := range nodes {
					n, err := g.Next(t.Context())
					if errors.Is(err, ids.ErrExhausted) {
						done++
						continue
					}
					if err != nil || n < first || n > last || seen[n] {
						t.Fatalf("Next = %d, %v, seen before: %v", n, err, seen[n])
					}
					seen[n] = true
				}
			}
			if got, want := int64(len(seen)), last-first+1; got != want {
				t.Errorf("issued %d numbers, want all %d", got, want)
			}
		})
	}
}

func TestLeaseIsInOnePiece(t *testing.T) {
	store := memory.NewSequences(nil)
	g := newGenerator(t, store, &ids.Options{RangeSize: 10})
	var end int64
	for _, n := range []int{1, 7, 10, 64, 3, 1000, ids.MaxLease} {
		r, err := g.Lease(t.Context(), n)
		if err != nil || r.Count() != int64(n) {
			t.Fatalf("Lease(%d) = %v, %v", n, r, err)
		}
		if r.First <= end && r.Last >= end {
			t.Errorf("Lease(%d) = %v overlaps what ended at %d", n, r, end)
		}
		end = max(end, r.Last)
	}
	for _, n := range []int{0, -1, ids.MaxLease + 1} {
		if _, err := g.Lease(t.Context(), n); err == nil {
			t.Errorf("Lease(%d) succeeded", n)
		}
	}
	// Too many for what is left is an error; what is left can still be had.
	store = memory.NewSequences(nil)
	g = newGenerator(t, store, &ids.Options{Last: 50})
	if _, err := g.Lease(t.Context(), 51); !errors.Is(err, ids.ErrExhausted) {
		t.Errorf("Lease(51) of 50: %v, want ErrExhausted", err)
	}
	if r, err := g.Lease(t.Context(), 50); err != nil || r != (ids.Range{First: 1, Last: 50}) {
		t.Errorf("Lease(50) of 50 = %v, %v", r, err)
	}
}

// Four goroutines per node, four nodes, real parallelism: for the race detector.
func TestParallel(t *testing.T) {
	store := memory.NewSequences(nil)
	var mu sync.Mutex
	seen := make(map[int64]bool)
	var all sync.WaitGroup
	for range 4 {
		g := newGenerator(t, store, &ids.Options{RangeSize: 50})
		var callers sync.WaitGroup
		for c := range 4 {
			callers.Go(func() {
				for range 2000 {
					r := ids.Range{}
					var err error
					if c == 0 {
						r, err = g.Lease(t.Context(), 3)
					} else {
						r.First, err = g.Next(t.Context())
						r.Last = r.First
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for n := r.First; n <= r.Last; n++ {
						if seen[n] {
							t.Errorf("number %d was issued twice", n)
						}
						seen[n] = true
					}
					mu.Unlock()
				}
			})
		}
		all.Go(func() {
			callers.Wait()
			if err := g.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if s := g.Stats(); s.Issued != 12_000 || s.InHand != 0 || s.Reserved != s.Issued+s.Burnt+s.Returned {
				t.Errorf("the account does not add up: %+v", s)
			}
		})
	}
	all.Wait()
	if len(seen) != 4*12_000 {
		t.Errorf("%d different numbers, want %d", len(seen), 4*12_000)
	}
}

func TestStoresWithTheSameSequenceShareNothing(t *testing.T) {
	for range 2 {
		set, err := ids.NewSet(memory.NewSequences(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		g, err := set.Get("orders")
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := set.Get("orders"); again != g {
			t.Error("one set made two generators of one sequence")
		}
		if n, err := g.Next(t.Context()); n != 1 || err != nil {
			t.Errorf("first number of a new store = %d, %v, want 1", n, err)
		}
		if _, err := set.Get("no/such"); err == nil {
			t.Error("a bad name got a generator")
		}
		if err := set.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := set.Get("other"); !errors.Is(err, ids.ErrClosed) {
			t.Errorf("Get after Close: %v, want ErrClosed", err)
		}
	}
}

// A caller who gives up leaves at once, and leaves nothing behind that stops
// the others.
func TestGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewSequences(&memory.Options{Fate: func(memory.Call) memory.Fate {
			return memory.Fate{Delay: time.Second}
		}})
		g := newGenerator(t, store, nil)
		start := time.Now()
		for _, draw := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := g.Next(ctx); return err },
			func(ctx context.Context) error { _, err := g.Lease(ctx, 5); return err },
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("the caller hung up")
			cancel(why)
			if err := draw(ctx); !errors.Is(err, why) {
				t.Errorf("error %v, want %v", err, why)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("giving up took %v", took)
		}
		if r, err := g.Lease(t.Context(), 7); err != nil || r.Count() != 7 {
			t.Errorf("Lease after others gave up = %v, %v", r, err)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A thousand clean restarts of a single node lose no number; whatever the
// moment, a kill loses two ranges at most.
func TestRestarts(t *testing.T) {
	store := memory.NewSequences(nil)
	next := int64(1)
	for range 1000 {
		g := newGenerator(t, store, nil)
		for range rand.IntN(2500) {
			n, err := g.Next(t.Context())
			if err != nil || n != next {
				t.Fatalf("Next = %d, %v, want %d", n, err, next)
			}
			next++
		}
		if err := g.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	mark, _ := store.Get("orders")
	t.Logf("figure: numbers lost in 1,000 clean stops and starts, of %d | %d | 0", next-1, storedNumber(t, mark)-next)
	most := int64(0)
	for range 200 {
		g := newGenerator(t, store, &ids.Options{MaxRangeSize: 1000})
		highest := int64(0)
		for range 1 + rand.IntN(5000) {
			n, err := g.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			highest = n
		}
		closeNow(g) // waits for the request in flight, so that what it reserved is counted
		mark, _ := store.Get("orders")
		lost := storedNumber(t, mark) - 1 - highest
		if lost > 2000 {
			t.Fatalf("a kill lost %d numbers, want at most two ranges of 1000", lost)
		}
		most = max(most, lost)
	}
	t.Logf("figure: most numbers that one of 200 kills lost, ranges of 1000 | %d | ≤ 2000", most)
}

func storedNumber(t *testing.T, mark ids.Mark) int64 {
	t.Helper()
	n, err := strconv.ParseInt(mark.Text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// While a request to the store is under way, the numbers in hand are issued
// and the account can be read: nothing holds a lock over I/O.
func TestNumbersFlowDuringARequest(t *testing.T) {
	arrived, release := make(chan bool), make(chan bool)
	store := memory.NewSequences(&memory.Options{Fate: func(c memory.Call) memory.Fate {
		if c.N == 3 { // the second range
			arrived <- true
			<-release
		}
		return memory.Fate{}
	}})
	g := newGenerator(t, store, &ids.Options{RangeSize: 100, MaxRangeSize: 100, CallTimeout: time.Hour})
	flowed := make(chan error, 1)
	go func() {
		for range 51 {
			if _, err := g.Next(t.Context()); err != nil {
				flowed <- err
				return
			}
		}
		<-arrived
		for range 49 {
			if _, err := g.Next(t.Context()); err != nil {
				flowed <- err
				return
			}
		}
		g.Stats()
		flowed <- nil
	}()
	select {
	case err := <-flowed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second): // only ever reached when it is broken
		t.Error("callers were held up by a request that is under way")
	}
	close(release)
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
