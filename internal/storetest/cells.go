package storetest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// cell is the value of a compare-and-swap store under one name. Without a
// version, nothing is stored.
type cell struct{ text, version string }

// cells adapts a compare-and-swap store under test, with functions that change
// it from outside, as other programs do.
type cells struct {
	load    func(ctx context.Context, name string) (cell, error)
	replace func(ctx context.Context, name string, old cell, text string) (cell, error)
	changed error // the store's error for a lost race

	set    func(t *testing.T, name, text string)
	delete func(t *testing.T, name string)

	texts   []string // that are kept exactly
	invalid []string // texts that are rejected
	names   []string // that are distinct
}

// cellTest is one test with its store.
type cellTest struct {
	*testing.T
	ctx context.Context
	cells
}

// testCells checks the contract of every compare-and-swap store, and more for
// one kind of store. Each call of newStore returns an empty store without a
// container.
func testCells[Store any](t *testing.T, newStore func(t *testing.T) Store, adapt func(Store) cells, more map[string]func(*cellTest, Store)) {
	tests := map[string]func(*cellTest, Store){}
	for name, test := range map[string]func(*cellTest){
		"Absent": absent, "Replace": replace, "CreateTogether": createTogether, "Texts": texts, "Names": names,
		"Outsider": outsider, "DeletedUnderHolder": deletedUnderHolder, "Contention": contention, "Cancelled": cancelled,
	} {
		tests[name] = func(t *cellTest, _ Store) { test(t) }
	}
	for name, test := range more {
		tests[name] = test
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			store := newStore(t)
			test(&cellTest{T: t, ctx: ctx, cells: adapt(store)}, store)
		})
	}
}

// get returns the stored value.
func (t *cellTest) get(name string) cell {
	t.Helper()
	c, err := t.load(t.ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (t *cellTest) holds(name string, want cell) {
	t.Helper()
	if got := t.get(name); got != want {
		t.Errorf("stored %.80q under version %q, want %.80q under %q", got.text, got.version, want.text, want.version)
	}
}

// put must succeed and return the written value with a new version.
func (t *cellTest) put(name string, old cell, text string) cell {
	t.Helper()
	got, err := t.replace(t.ctx, name, old, text)
	if err != nil {
		t.Fatal(err)
	}
	if got.text != text || got.version == "" || got.version == old.version {
		t.Fatalf("replace returned %.80q under version %q after %q", got.text, got.version, old.version)
	}
	t.holds(name, got)
	return got
}

// loses checks that a write that replaces old fails and has no effect.
func (t *cellTest) loses(name string, old cell) {
	t.Helper()
	before := t.get(name)
	for _, text := range []string{"7", before.text} {
		if _, err := t.replace(t.ctx, name, old, text); !errors.Is(err, t.changed) {
			t.Errorf("replace version %q: %v, want %v", old.version, err, t.changed)
		}
	}
	t.holds(name, before)
}

func absent(t *cellTest) {
	t.holds("start", cell{}) // without a container
	other := t.put("other", cell{}, "1")
	t.holds("start", cell{}) // with one
	t.loses("start", other)
	t.put("start", cell{}, "2")
	t.loses("start", cell{})
	t.holds("other", other)
}

func replace(t *cellTest) {
	versions := make(map[string]bool)
	var held []cell
	last := cell{}
	for _, text := range []string{"1001", "2001", "1500", "1001", "1001"} { // also lower and equal values
		last = t.put("start", last, text)
		if versions[last.version] {
			t.Errorf("version %q was used twice", last.version)
		}
		versions[last.version] = true
		for _, old := range held {
			t.loses("start", old)
		}
		held = append(held, last)
	}
}

func createTogether(t *cellTest) {
	const nodes = 8
	var mu sync.Mutex
	var winners []cell
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() {
			c, err := t.replace(t.ctx, "start", cell{}, strconv.Itoa(i))
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				winners = append(winners, c)
			} else if !errors.Is(err, t.changed) {
				t.Errorf("create: %v, want success or %v", err, t.changed)
			}
		})
	}
	wg.Wait()
	if len(winners) != 1 {
		t.Fatalf("%d of %d created the same name, want 1", len(winners), nodes)
	}
	t.holds("start", winners[0])
}

func texts(t *cellTest) {
	last := cell{}
	for _, text := range t.texts {
		last = t.put("start", last, text)
		t.set(t.T, "start", text)
		if last = t.get("start"); last.text != text {
			t.Errorf("loaded %.80q, want %.80q", last.text, text)
		}
	}
	for _, text := range t.invalid {
		if _, err := t.replace(t.ctx, "start", last, text); err == nil || errors.Is(err, t.changed) {
			t.Errorf("replace by %d bytes of %.10q: %v, want it rejected as invalid", len(text), text, err)
		}
		t.holds("start", last)
	}
}

func names(t *cellTest) {
	for i, name := range t.names {
		t.put(name, cell{}, strconv.Itoa(i))
	}
	for i, name := range t.names {
		if got := t.get(name).text; got != strconv.Itoa(i) {
			t.Errorf("%.80q contains %q, want %d: names are confused", name, got, i)
		}
	}
	for _, name := range []string{"", strings.Repeat("n", 1025), "start.", "start/", `start\`, "\x00", "\xff"} {
		if c, err := t.load(t.ctx, name); err == nil {
			t.Errorf("load %.80q: %+v, want it rejected", name, c)
		}
		if _, err := t.replace(t.ctx, name, cell{}, "1"); err == nil || errors.Is(err, t.changed) {
			t.Errorf("create %.80q: %v, want it rejected", name, err)
		}
	}
}

func outsider(t *cellTest) {
	held := t.put("start", cell{}, "1")
	t.set(t.T, "start", "5001")
	t.loses("start", held)
	seen := t.get("start")
	if seen.text != "5001" {
		t.Errorf("loaded %q, want the text of the other program", seen.text)
	}
	t.put("start", seen, "2")
}

func deletedUnderHolder(t *cellTest) {
	held, other := t.put("start", cell{}, "1"), t.put("other", cell{}, "1")
	t.delete(t.T, "start")
	t.loses("start", held)
	t.holds("start", cell{})
	t.holds("other", other)
	if next := t.put("start", cell{}, "1"); next.version == held.version {
		t.Errorf("version %q was used twice", held.version)
	}
	t.loses("start", held)
}

// contention lets many nodes add one by compare-and-swap. No addition may
// overwrite another one.
func contention(t *cellTest) {
	const nodes = 8
	each := Scale(2, 4)
	t.put("start", cell{}, "0")
	var wg sync.WaitGroup
	for range nodes {
		wg.Go(func() {
			for done := 0; done < each; {
				old, err := t.load(t.ctx, "start")
				n, _ := strconv.Atoi(old.text)
				if err == nil {
					_, err = t.replace(t.ctx, "start", old, strconv.Itoa(n+1))
				}
				switch {
				case err == nil:
					done++
				case !errors.Is(err, t.changed):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got, want := t.get("start").text, strconv.Itoa(nodes*each); got != want {
		t.Errorf("%s of %s additions were kept", got, want)
	}
}

func cancelled(t *cellTest) {
	held := t.put("start", cell{}, "1")
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	_, loaded := t.load(ctx, "start")
	_, replaced := t.replace(ctx, "start", held, "2")
	_, created := t.replace(ctx, "other", cell{}, "1")
	for _, err := range []error{loaded, replaced, created} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("with an ended context: %v, want %v", err, context.Canceled)
		}
	}
	t.holds("start", held)
	t.holds("other", cell{})
}
