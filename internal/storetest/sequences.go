package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"kennel/ids"
)

// Sequences is a store under test, with functions that change it from outside,
// as other programs do.
type Sequences struct {
	ids.Store
	Set    func(t *testing.T, sequence, text string) // stores a text without metadata, as other programs do
	Delete func(t *testing.T, sequence string)
}

// TestSequences checks the contract of [ids.Store]. Each call of newStore
// returns an empty store without a container.
func TestSequences(t *testing.T, newStore func(t *testing.T) Sequences) {
	testCells(t, newStore, Sequences.cells, map[string]func(*cellTest, Sequences){"Metadata": metadata, "LongNumber": longNumber, "Missing": missing})
}

func (s Sequences) cells() cells {
	return cells{
		load: func(ctx context.Context, name string) (cell, error) {
			mark, err := s.Load(ctx, name)
			if errors.Is(err, ids.ErrNotFound) {
				return cell{}, nil
			}
			if err == nil && mark.Version == "" {
				err = errors.New("a mark without a version")
			}
			return cell{mark.Text, mark.Version}, err
		},
		replace: func(ctx context.Context, name string, old cell, text string) (cell, error) {
			mark, err := s.Replace(ctx, name, ids.Mark{Text: old.text, Version: old.version}, ids.Mark{Text: text})
			return cell{mark.Text, mark.Version}, err
		},
		changed: ids.ErrChanged, set: s.Set, delete: s.Delete,
		texts: []string{
			"1001", "", "\uFEFF1001" /* as editors and .NET write it */, "1001\n", "1001\r\n", "  7\t",
			"9007199254740992", "9223372036854775808", "18446744073709551616", "invalid", "\x00\xff\xfe", strings.Repeat("9", 64),
		},
		invalid: []string{strings.Repeat("1", 65)},
		names: []string{
			"orders", "Orders", "orders/2024", "a b", "ümlaut", "100%", "x%2Fy", "x/y", "a+b", "a&b=c?d#e", "日本",
			strings.Repeat("n", 1024),
		},
	}
}

// Writer, peak, history, forks and known are stored unchanged with the text. A text from another
// program has none of them.
func metadata(t *cellTest, s Sequences) {
	mark := ids.Mark{}
	for _, next := range []ids.Mark{
		{Text: "1", Writer: "node-7/0198f1", Peak: "9223372036854775808"},
		{Text: "2", Peak: "5", Known: true, History: "1048577:1 ABCDEFGHIJKL:7 MNOPQRSTUVWX:6", Forks: "5:ABCDEFGHIJKL"},
		{Text: "3", Writer: "Ab=:;,\"'%20 ~"},
		{Text: "4"},
		{Text: "5", Writer: strings.Repeat("w", 256), Peak: strings.Repeat("9", 256), History: strings.Repeat("h", 640), Forks: strings.Repeat("f", 256)},
	} {
		written, err := s.Replace(t.ctx, "orders", mark, next)
		if err != nil {
			t.Fatal(err)
		}
		mark, err = s.Load(t.ctx, "orders")
		if next.Version = mark.Version; err != nil || written != mark || mark != next {
			t.Errorf("wrote %+v, returned %+v, loaded %+v, %v", next, written, mark, err)
		}
	}
	for _, next := range []ids.Mark{
		{Text: "1", Writer: strings.Repeat("w", 257)}, {Text: "1", Writer: " padded"}, {Text: "1", Writer: "two\nlines"}, {Text: "1", Peak: "ä"},
		{Text: "1", History: strings.Repeat("h", 641)},
		{Text: "1", Forks: strings.Repeat("f", 257)},
	} {
		if _, err := s.Replace(t.ctx, "orders", mark, next); err == nil || errors.Is(err, ids.ErrChanged) {
			t.Errorf("replace by %+v: %v, want it rejected as invalid", next, err)
		}
	}
	s.Set(t.T, "orders", "6")
	if got, err := s.Load(t.ctx, "orders"); err != nil || got != (ids.Mark{Text: "6", Version: got.Version}) || got.Version == mark.Version {
		t.Errorf("loaded %+v, %v, want only the text of the other program", got, err)
	}
}

// A truncated number must not be read as another number.
func longNumber(t *cellTest, s Sequences) {
	for _, text := range []string{strings.Repeat("1", 65), "1001" + strings.Repeat("\n", 100) + "2", strings.Repeat("\x00", 1<<20)} {
		t.set(t.T, "orders", text)
		c := t.get("orders")
		if want := fmt.Sprintf("… (%d bytes)", len(text)); len(c.text) > 200 || !strings.HasSuffix(c.text, want) {
			t.Errorf("loaded %d bytes of %d, %.100q, which do not end with %q", len(c.text), len(text), c.text, want)
		}
		t.put("orders", c, "1001") // it can be repaired
	}
}

// A sequence that was remembered is missing when its mark is deleted, and not
// new.
func missing(t *cellTest, s Sequences) {
	load := func(want error) {
		t.Helper()
		if m, err := s.Load(t.ctx, "orders"); !errors.Is(err, want) {
			t.Errorf("load: %+v, %v, want %v", m, err, want)
		}
	}
	load(ids.ErrNotFound)
	mark, err := s.Replace(t.ctx, "orders", ids.Mark{}, ids.Mark{Text: "1001"})
	if err != nil {
		t.Fatal(err)
	}
	s.Delete(t.T, "orders")
	load(ids.ErrNotFound)
	for range 2 {
		if err := s.Remember(t.ctx, "orders"); err != nil {
			t.Fatal(err)
		}
	}
	load(ids.ErrMissing)
	if _, err := s.Load(t.ctx, "others"); !errors.Is(err, ids.ErrNotFound) {
		t.Errorf("load of another sequence: %v, want ErrNotFound", err)
	}
	if _, err := s.Replace(t.ctx, "orders", mark, ids.Mark{Text: "2001"}); !errors.Is(err, ids.ErrChanged) {
		t.Errorf("replace of a deleted mark: %v, want ErrChanged", err)
	}
	if _, err := s.Replace(t.ctx, "orders", ids.Mark{}, ids.Mark{Text: "5000", Known: true}); err != nil {
		t.Errorf("create it again: %v", err)
	}
	load(nil)
}
