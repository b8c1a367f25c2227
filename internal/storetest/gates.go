package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kennel/gate"
)

// Gates is a store under test, with functions that change it from outside, as
// other programs do.
type Gates struct {
	gate.Store
	Set    func(t *testing.T, name, text string)
	Delete func(t *testing.T, name string)
}

// TestGates checks the contract of [gate.Store]. Each call of newStore returns
// an empty store without a container.
func TestGates(t *testing.T, newStore func(t *testing.T) Gates) {
	testCells(t, newStore, Gates.cells, map[string]func(*cellTest, Gates){
		"SeenBefore": seenBefore, "Clock": clock, "LongText": longText,
	})
}

func (g Gates) cells() cells {
	return cells{
		load: func(ctx context.Context, name string) (cell, error) {
			f, err := g.Load(ctx, name, "")
			return cell{f.Text, f.Version}, err
		},
		replace: func(ctx context.Context, name string, old cell, text string) (cell, error) {
			f, err := g.Replace(ctx, name, gate.Flag{Text: old.text, Version: old.version}, gate.Flag{Text: text})
			return cell{f.Text, f.Version}, err
		},
		changed: gate.ErrChanged, set: g.Set, delete: g.Delete,
		texts: []string{
			"{}", "", "\ufeff{\n  \"version\": 1\n}\n", `{"reason":"ümlaut, 日本, 🐕, \"quotes\" & <tags>"}`, "{}\r\n\x00",
			strings.Repeat("a", gate.MaxText),
		},
		invalid: []string{strings.Repeat("a", gate.MaxText+1), "\xff"},
		names:   []string{"start", "start-order-processing", "0", strings.Repeat("n", 63)},
	}
}

func seenBefore(t *cellTest, g Gates) {
	first := t.put("start", cell{}, "one")
	if _, err := g.Load(t.ctx, "start", first.version); !errors.Is(err, gate.ErrUnchanged) {
		t.Errorf("load the version that was seen: %v, want %v", err, gate.ErrUnchanged)
	}
	second := t.put("start", first, "two")
	t.set(t.T, "start", "two") // the same text under another version
	for _, seen := range []cell{first, second} {
		if got, err := g.Load(t.ctx, "start", seen.version); err != nil || got.Text != "two" || got.Version == seen.version {
			t.Errorf("load with an older version: %+v, %v, want the stored text", got, err)
		}
	}
	t.delete(t.T, "start")
	if got, err := g.Load(t.ctx, "start", second.version); err != nil || got.Version != "" || got.Text != "" {
		t.Errorf("load a deleted gate: %+v, %v, want no document", got, err)
	}
}

// clock checks that the store's clock is close to ours (on one machine), never
// goes back, and advances, even without a document or a container.
func clock(t *cellTest, g Gates) {
	var last time.Time
	read := func(what string) time.Time {
		t.Helper()
		f, err := g.Load(t.ctx, "start", "")
		if off := time.Since(f.ReadAt).Abs(); err != nil || off > time.Minute || f.ReadAt.Before(last) {
			t.Errorf("%s was read at %v by the store's clock, %v after %v, off by %v", what, f.ReadAt, err, last, off)
		}
		last = f.ReadAt
		return last
	}
	first := read("a gate without a container")
	t.put("other", cell{}, "{}")
	read("a gate without a document")
	t.put("start", cell{}, "{}")
	read("a gate")
	t.delete(t.T, "start")
	for began := time.Now(); !read("a deleted gate").After(first); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the store's clock does not advance")
		}
	}
}

func longText(t *cellTest, _ Gates) {
	t.set(t.T, "start", strings.Repeat("\x00", 3*gate.MaxText))
	c := t.get("start")
	if len(c.text) > gate.MaxText {
		t.Errorf("loaded %d bytes, want at most %d", len(c.text), gate.MaxText)
	}
	t.put("start", c, "{}") // it can be repaired
}
