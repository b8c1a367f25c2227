package ids_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/ids"
	"kennel/internal/memory"
)

var errLost = errors.New("connection reset")

func newGenerator(t testing.TB, store ids.Store, o *ids.Options) *ids.Generator {
	t.Helper()
	g, err := ids.New(store, "orders", o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// next draws one number.
func next(t testing.TB, g *ids.Generator) int64 {
	t.Helper()
	n, err := g.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func closeCleanly(t testing.TB, g *ids.Generator) {
	t.Helper()
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// closeNow ends a generator like a kill, without a further request. It waits
// for the request in flight.
func closeNow(g *ids.Generator) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	g.Close(ctx)
}

// checkAccount requires that each reserved number is counted exactly once.
func checkAccount(t testing.TB, s ids.Stats) {
	t.Helper()
	if s.Reserved+s.TakenBack != s.Issued+s.Lost+s.Returned+s.Available {
		t.Errorf("Reserved is not the sum of Issued, Lost, Returned and Available: %+v", s)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tt := range []struct {
		sequence string
		options  ids.Options
		want     string
	}{
		{strings.Repeat("a", 64), ids.Options{}, "64 characters"},
		{"Orders", ids.Options{}, "lower-case"},
		{"a/b", ids.Options{}, "lower-case"},
		{"a-", ids.Options{}, "inner hyphens"},
		{".a", ids.Options{}, "inner hyphens and dots"},
		{"größe", ids.Options{}, "lower-case"},
		{"a", ids.Options{First: 5, Last: 4}, "Options.Last"},
		{"a", ids.Options{Last: 1<<63 - 1}, "Options.Last"}, // no room for one past the last
		{"a", ids.Options{RangeSize: 1<<40 + 1}, "Options.RangeSize"},
		{"a", ids.Options{RangeSize: 10, MaxRangeSize: 9}, "Options.MaxRangeSize"},
		{"a", ids.Options{RangeLasts: -1}, "Options.RangeLasts"},
		{"a", ids.Options{MaxWait: -1}, "Options.MaxWait"},
	} {
		_, err := ids.New(memory.NewSequences(nil), tt.sequence, &tt.options)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New of %q with %+v: %v, want an error with %q", tt.sequence, tt.options, err, tt.want)
		}
	}
	_, err1 := ids.New(nil, "a", nil)
	_, err2 := ids.NewSet(nil, nil)
	if err1 == nil || err2 == nil {
		t.Errorf("without a store: %v, %v", err1, err2)
	}
	for _, name := range []string{"0", "orders-2026", "ordernumber.dat", strings.Repeat("a", 63)} {
		if err := ids.CheckName(name); err != nil {
			t.Errorf("CheckName(%q): %v", name, err)
		}
	}
}

// TestStoredTexts reads texts that other programs or operators may have stored.
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
			for range 2 { // the article's sample failed once, and then counted from 1
				n, err := g.Next(t.Context())
				switch {
				case tt.want == 0 && (!errors.Is(err, ids.ErrCorrupt) || len(err.Error()) > 300):
					t.Errorf("Next = %d, %v, want a short ErrCorrupt", n, err)
				case tt.want != 0 && (err != nil || n != tt.want):
					t.Errorf("Next = %d, %v, want %d", n, err, tt.want)
				}
				tt.want += min(tt.want, 1)
			}
			if problem := g.Stats().Problem; (problem == "") != (tt.want != 0) {
				t.Errorf("Stats report the problem %q", problem)
			}
			if mark, _ := store.Get("orders"); tt.want == 0 && mark.Text != tt.text {
				t.Errorf("the text was changed to %q", mark.Text)
			}
		})
	}
}

// A sequence issues every number up to its last, whatever the ranges, and none
// afterwards.
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
			issued := newTally(t)
			for ended := 0; ended < len(nodes); {
				ended = 0
				for i, g := range nodes {
					n, err := g.Next(t.Context())
					if errors.Is(err, ids.ErrExhausted) {
						ended++
						continue
					}
					if err != nil || n < first || n > last {
						t.Fatalf("Next = %d, %v", n, err)
					}
					issued.add(i, ids.Range{First: n, Last: n})
				}
			}
			if got, want := int64(len(issued.owner)), last-first+1; got != want {
				t.Errorf("issued %d numbers, want all %d", got, want)
			}
		})
	}
}

func TestLeaseIsInOnePiece(t *testing.T) {
	g := newGenerator(t, memory.NewSequences(nil), &ids.Options{RangeSize: 10})
	for _, n := range []int{1, 7, 10, 64, 3, 1000, ids.MaxLease} {
		if r, err := g.Lease(t.Context(), n); err != nil || r.Count() != int64(n) {
			t.Fatalf("Lease(%d) = %v, %v", n, r, err)
		}
	}
	for _, n := range []int{0, -1, ids.MaxLease + 1} {
		if _, err := g.Lease(t.Context(), n); err == nil {
			t.Errorf("Lease(%d) succeeded", n)
		}
	}
	// A lease larger than the rest fails; the rest can still be leased.
	g = newGenerator(t, memory.NewSequences(nil), &ids.Options{Last: 50})
	if _, err := g.Lease(t.Context(), 51); !errors.Is(err, ids.ErrExhausted) {
		t.Errorf("Lease(51) of 50: %v, want ErrExhausted", err)
	}
	if r, err := g.Lease(t.Context(), 50); err != nil || r != (ids.Range{First: 1, Last: 50}) {
		t.Errorf("Lease(50) of 50 = %v, %v", r, err)
	}
}

// TestParallel runs four callers on each of four nodes in parallel, for the
// race detector.
func TestParallel(t *testing.T) {
	store := memory.NewSequences(nil)
	issued := newTally(t)
	var all sync.WaitGroup
	for i := range 4 {
		g := newGenerator(t, store, &ids.Options{RangeSize: 50})
		var callers sync.WaitGroup
		for caller := range 4 {
			callers.Go(func() {
				for range 2000 {
					r, err := draw(t.Context(), g, []int{3, 1, 1, 1}[caller])
					if err != nil {
						t.Error(err)
						return
					}
					issued.add(i, r)
				}
			})
		}
		all.Go(func() {
			callers.Wait()
			closeCleanly(t, g)
			s := g.Stats()
			if checkAccount(t, s); s.Issued != 12_000 || s.Available != 0 {
				t.Errorf("issued %d numbers and has %d available, want 12,000 and 0", s.Issued, s.Available)
			}
		})
	}
	all.Wait()
	if len(issued.owner) != 4*12_000 {
		t.Errorf("%d different numbers, want %d", len(issued.owner), 4*12_000)
	}
}

// While a request to the store is in flight, available numbers are issued and
// Stats returns: no lock is held during I/O.
func TestNumbersFlowDuringARequest(t *testing.T) {
	arrived, release := make(chan bool), make(chan bool)
	store := memory.NewSequences(&memory.Options{Fault: func(c memory.Call) memory.Fault {
		if c.N == 4 { // the second range
			arrived <- true
			<-release
		}
		return memory.Fault{}
	}})
	g := newGenerator(t, store, &ids.Options{RangeSize: 100, MaxRangeSize: 100, CallTimeout: time.Hour})
	for range 51 {
		next(t, g)
	}
	<-arrived
	flowed := make(chan bool)
	go func() {
		defer close(flowed)
		for range 49 {
			if _, err := g.Next(t.Context()); err != nil {
				t.Error(err)
			}
		}
		g.Stats()
	}()
	select {
	case <-flowed:
	case <-time.After(5 * time.Second): // reached only when the test fails
		t.Error("a caller waited for a request in flight")
	}
	close(release)
	closeCleanly(t, g)
}
