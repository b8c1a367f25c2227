package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/cas"
)

// Values is a store under test, with functions that change it from outside, as
// other programs do.
type Values struct {
	cas.Store
	Set    func(t *testing.T, name, text string) // stores a text without metadata
	Delete func(t *testing.T, name string)
}

// valueTest is one test with its store.
type valueTest struct {
	*testing.T
	Values
	ctx context.Context
}

// TestValues checks the contract of [cas.Store]. Each call of newStore returns
// an empty store without a container.
func TestValues(t *testing.T, newStore func(t *testing.T) Values) {
	for name, test := range map[string]func(*valueTest){
		"Absent": absent, "Replace": replace, "CreateTogether": createTogether, "Texts": texts, "LongText": longText,
		"Metadata": metadata, "Names": names, "SeenBefore": seenBefore, "Clock": clock, "Outsider": outsider,
		"DeletedUnderHolder": deletedUnderHolder, "Contention": contention, "Cancelled": cancelled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			test(&valueTest{t, newStore(t), ctx})
		})
	}
}

// get returns what Replace returned, or would return, of the stored value.
func (t *valueTest) get(name string) cas.Value {
	t.Helper()
	v, err := t.Load(t.ctx, name, "")
	if err != nil {
		t.Fatal(err)
	}
	return cas.Value{Text: v.Text, Meta: v.Meta, Version: v.Version}
}

func (t *valueTest) holds(name string, want cas.Value) {
	t.Helper()
	if got := t.get(name); !reflect.DeepEqual(got, want) {
		t.Errorf("stored %.200q, want %.200q", fmt.Sprint(got), fmt.Sprint(want))
	}
}

// put must succeed and return the written text with a new version.
func (t *valueTest) put(name string, old cas.Value, text string) cas.Value {
	t.Helper()
	got, err := t.Replace(t.ctx, name, old, cas.Value{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	if got.Text != text || got.Version == "" || got.Version == old.Version {
		t.Fatalf("replace returned %.80q under version %q after %q", got.Text, got.Version, old.Version)
	}
	t.holds(name, got)
	return got
}

// loses checks that a write that replaces old fails and has no effect.
func (t *valueTest) loses(name string, old cas.Value) {
	t.Helper()
	before := t.get(name)
	for _, text := range []string{"7", before.Text} {
		if _, err := t.Replace(t.ctx, name, old, cas.Value{Text: text}); !errors.Is(err, cas.ErrChanged) {
			t.Errorf("replace version %q: %v, want %v", old.Version, err, cas.ErrChanged)
		}
	}
	t.holds(name, before)
}

// rejects checks that a value is rejected as invalid and has no effect.
func (t *valueTest) rejects(name string, old, next cas.Value) {
	t.Helper()
	if _, err := t.Replace(t.ctx, name, old, next); err == nil || errors.Is(err, cas.ErrChanged) {
		t.Errorf("replace by %d bytes with metadata %.80q: %v, want it rejected as invalid", len(next.Text), fmt.Sprint(next.Meta), err)
	}
	t.holds(name, old)
}

func absent(t *valueTest) {
	t.holds("start", cas.Value{}) // without a container
	other := t.put("other", cas.Value{}, "1")
	t.holds("start", cas.Value{}) // with one
	t.loses("start", other)
	t.put("start", cas.Value{}, "2")
	t.loses("start", cas.Value{})
	t.holds("other", other)
}

func replace(t *valueTest) {
	versions := make(map[string]bool)
	var held []cas.Value
	last := cas.Value{}
	for _, text := range []string{"1001", "2001", "1500", "1001", "1001"} { // also lower and equal values
		last = t.put("start", last, text)
		if versions[last.Version] {
			t.Errorf("version %q was used twice", last.Version)
		}
		versions[last.Version] = true
		for _, old := range held {
			t.loses("start", old)
		}
		held = append(held, last)
	}
}

func createTogether(t *valueTest) {
	const nodes = 8
	var mu sync.Mutex
	var winners []cas.Value
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() {
			c, err := t.Replace(t.ctx, "start", cas.Value{}, cas.Value{Text: strconv.Itoa(i)})
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				winners = append(winners, c)
			} else if !errors.Is(err, cas.ErrChanged) {
				t.Errorf("create: %v, want success or %v", err, cas.ErrChanged)
			}
		})
	}
	wg.Wait()
	if len(winners) != 1 {
		t.Fatalf("%d of %d created the same name, want 1", len(winners), nodes)
	}
	t.holds("start", winners[0])
}

func texts(t *valueTest) {
	last := cas.Value{}
	for _, text := range []string{
		"1001", "", "\uFEFF1001" /* as editors and .NET write it */, "1001\n", "1001\r\n", "  7\t",
		"9007199254740992", "9223372036854775808", "18446744073709551616", "invalid", "\x00\xff\xfe",
		"{}", "\ufeff{\n  \"version\": 1\n}\n", `{"reason":"ümlaut, 日本, 🐕, \"quotes\" & <tags>"}`, "{}\r\n\x00",
		strings.Repeat("a", cas.MaxText),
	} {
		last = t.put("start", last, text)
		t.Set(t.T, "start", text)
		if last = t.get("start"); last.Text != text {
			t.Errorf("loaded %.80q, want %.80q", last.Text, text)
		}
	}
	t.rejects("start", last, cas.Value{Text: strings.Repeat("a", cas.MaxText+1)})
}

// A text that is too long is cut, and can be replaced.
func longText(t *valueTest) {
	t.Set(t.T, "start", strings.Repeat("\x00", 3*cas.MaxText))
	v := t.get("start")
	if len(v.Text) != cas.MaxText {
		t.Errorf("loaded %d bytes, want %d", len(v.Text), cas.MaxText)
	}
	t.put("start", v, "{}")
}

// Metadata is stored unchanged with the text. A text of another program has
// none.
func metadata(t *valueTest) {
	last := cas.Value{}
	for _, meta := range []map[string]string{
		{"writer": "node-7/0198f1", "peak": "9223372036854775808"},
		nil,
		{"history": "1048577:1 ABCDEFGHIJKL:7 MNOPQRSTUVWX:6", "known": "1"},
		{"writer": "Ab=:;,\"'%20 ~"},
		{"history": strings.Repeat("h", 2<<10)},
	} {
		written, err := t.Replace(t.ctx, "orders", last, cas.Value{Text: "1", Meta: meta})
		if err != nil {
			t.Fatal(err)
		}
		t.holds("orders", written)
		if last = t.get("orders"); !reflect.DeepEqual(last.Meta, meta) {
			t.Errorf("loaded the metadata %q, want %q", last.Meta, meta)
		}
	}
	for _, meta := range []map[string]string{
		{"writer": " padded"}, {"writer": "two\nlines"}, {"writer": "ä"}, {"writer": ""}, {"": "x"}, {"Writer": "x"}, {"a-b": "x"},
		{"writer": strings.Repeat("w", 4<<10)},
	} {
		t.rejects("orders", last, cas.Value{Text: "1", Meta: meta})
	}
	t.Set(t.T, "orders", "6")
	if v := t.get("orders"); v.Text != "6" || v.Meta != nil || v.Version == last.Version {
		t.Errorf("loaded %+v, want only the text of the other program", v)
	}
}

func seenBefore(t *valueTest) {
	first := t.put("start", cas.Value{}, "one")
	if _, err := t.Load(t.ctx, "start", first.Version); !errors.Is(err, cas.ErrUnchanged) {
		t.Errorf("load the version that was seen: %v, want %v", err, cas.ErrUnchanged)
	}
	second := t.put("start", first, "two")
	t.Set(t.T, "start", "two") // the same text under another version
	for _, seen := range []cas.Value{first, second} {
		if got, err := t.Load(t.ctx, "start", seen.Version); err != nil || got.Text != "two" || got.Version == seen.Version {
			t.Errorf("load with an older version: %+v, %v, want the stored text", got, err)
		}
	}
	t.Delete(t.T, "start")
	if got, err := t.Load(t.ctx, "start", second.Version); err != nil || got.Version != "" || got.Text != "" {
		t.Errorf("load a deleted value: %+v, %v, want none", got, err)
	}
}

// clock checks that the store's clock is close to ours (on one machine), never
// goes back, and advances, even without a value or a container. A value has the
// times of its write.
func clock(t *valueTest) {
	var last cas.Value
	read := func(what string) cas.Value {
		t.Helper()
		v, err := t.Load(t.ctx, "start", "")
		if off := time.Since(v.ReadAt).Abs(); err != nil || off > time.Minute || v.ReadAt.Before(last.ReadAt) {
			t.Errorf("%s was read at %v by the store's clock, %v after %v, off by %v", what, v.ReadAt, err, last.ReadAt, off)
		}
		last = v
		return v
	}
	first := read("a value without a container").ReadAt
	t.put("other", cas.Value{}, "{}")
	read("no value")
	t.put("start", cas.Value{}, "{}")
	if v := read("a value"); v.StoredAt.Sub(v.ReadAt).Abs() > 20*time.Second || v.WrittenAt.Sub(v.StoredAt).Abs() > 10*time.Second {
		t.Errorf("written at %v and stored at %v, read at %v", v.WrittenAt, v.StoredAt, v.ReadAt)
	}
	t.Set(t.T, "start", "{}")
	if v := read("a value of another program"); !v.WrittenAt.IsZero() || v.StoredAt.IsZero() {
		t.Errorf("another program's value was written at %v and stored at %v, want only the second time", v.WrittenAt, v.StoredAt)
	}
	t.Delete(t.T, "start")
	for began := time.Now(); !read("a deleted value").ReadAt.After(first); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the store's clock does not advance")
		}
	}
}

func names(t *valueTest) {
	all := []string{
		"orders", "Orders", "orders/2024", "a b", "ümlaut", "100%", "x%2Fy", "x/y", "a+b", "a&b=c?d#e", "日本",
		"start", "start-order-processing", "0", strings.Repeat("n", 63), strings.Repeat("n", 1024),
	}
	for i, name := range all {
		t.put(name, cas.Value{}, strconv.Itoa(i))
	}
	for i, name := range all {
		if got := t.get(name).Text; got != strconv.Itoa(i) {
			t.Errorf("%.80q contains %q, want %d: names are confused", name, got, i)
		}
	}
	for _, name := range []string{"", strings.Repeat("n", 1025), "start.", "start/", `start\`, "\x00", "\xff"} {
		if v, err := t.Load(t.ctx, name, ""); err == nil {
			t.Errorf("load %.80q: %+v, want it rejected", name, v)
		}
		if _, err := t.Replace(t.ctx, name, cas.Value{}, cas.Value{Text: "1"}); err == nil || errors.Is(err, cas.ErrChanged) {
			t.Errorf("create %.80q: %v, want it rejected", name, err)
		}
	}
}

func outsider(t *valueTest) {
	held := t.put("start", cas.Value{}, "1")
	t.Set(t.T, "start", "5001")
	t.loses("start", held)
	seen := t.get("start")
	if seen.Text != "5001" {
		t.Errorf("loaded %q, want the text of the other program", seen.Text)
	}
	t.put("start", seen, "2")
}

func deletedUnderHolder(t *valueTest) {
	held, other := t.put("start", cas.Value{}, "1"), t.put("other", cas.Value{}, "1")
	t.Delete(t.T, "start")
	t.loses("start", held)
	t.holds("start", cas.Value{})
	t.holds("other", other)
	if next := t.put("start", cas.Value{}, "1"); next.Version == held.Version {
		t.Errorf("version %q was used twice", held.Version)
	}
	t.loses("start", held)
}

// contention lets many nodes add one by compare-and-swap. No addition may
// overwrite another one.
func contention(t *valueTest) {
	const nodes = 8
	each := Scale(2, 4)
	t.put("start", cas.Value{}, "0")
	var wg sync.WaitGroup
	for range nodes {
		wg.Go(func() {
			for done := 0; done < each; {
				old, err := t.Load(t.ctx, "start", "")
				n, _ := strconv.Atoi(old.Text)
				if err == nil {
					_, err = t.Replace(t.ctx, "start", old, cas.Value{Text: strconv.Itoa(n + 1)})
				}
				switch {
				case err == nil:
					done++
				case !errors.Is(err, cas.ErrChanged):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got, want := t.get("start").Text, strconv.Itoa(nodes*each); got != want {
		t.Errorf("%s of %s additions were kept", got, want)
	}
}

func cancelled(t *valueTest) {
	held := t.put("start", cas.Value{}, "1")
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	_, loaded := t.Load(ctx, "start", "")
	_, replaced := t.Replace(ctx, "start", held, cas.Value{Text: "2"})
	_, created := t.Replace(ctx, "other", cas.Value{}, cas.Value{Text: "1"})
	for _, err := range []error{loaded, replaced, created} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("with an ended context: %v, want %v", err, context.Canceled)
		}
	}
	t.holds("start", held)
	t.holds("other", cas.Value{})
}
