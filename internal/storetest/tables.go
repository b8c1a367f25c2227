package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/table"
)

// TestTables checks the contract of [table.Store]. Each call of newTable
// returns a table that does not exist yet.
func TestTables(t *testing.T, newTable func(t *testing.T) table.Store) {
	for _, tt := range []struct {
		name string
		run  func(*tableTest)
	}{
		{"Absent", absentTable},
		{"Values", tableValues},
		{"Isolation", tableIsolation},
		{"InsertTogether", insertTogether},
		{"MergeAndReplace", mergeAndReplace},
		{"Upsert", upsert},
		{"Times", tableTimes},
		{"Conditions", tableConditions},
		{"AllOrNothing", allOrNothing},
		{"Fence", fence},
		{"Keys", tableKeys},
		{"Cancelled", cancelledTable},
		{"Order", queryOrder},
		{"Pages", queryPages},
		{"Filters", queryFilters},
		{"Columns", queryColumns},
		{"Tokens", queryTokens},
		{"MaxBytes", queryMaxBytes},
		{"Refused", refusedWrites},
		{"Taken", largeWrites},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			tt.run(&tableTest{T: t, ctx: ctx, table: newTable(t)})
		})
	}
}

const oldVersion = `W/"datetime'2020-01-01T00%3A00%3A00.0000000Z'"`

func absentTable(t *tableTest) {
	for i := range 2 { // without a table, and with one
		t.missing("p", "a")
		page, err := t.table.Query(t.ctx, table.Query{Partition: "p", Top: 10})
		if err != nil || len(page.Rows) != 0 || page.Next != "" {
			t.Errorf("query: %v, %v, want an empty page", page, err)
		}
		for _, verb := range []table.Verb{table.Merge, table.Replace, table.Delete} {
			t.refused(table.ErrNotFound, change(verb, "p", "a", nil, table.AnyVersion))
			t.refused(table.ErrNotFound, change(verb, "p", "a", nil, oldVersion))
			t.refused(table.ErrNotFound, change(verb, "p", "a", nil, table.AnyVersion), insert("p", "b", nil))
		}
		t.missing("p", "b")
		t.submit(insert("others", fmt.Sprint(i), nil))
	}
}

func tableValues(t *tableTest) {
	all := values{}
	for i, text := range []string{
		"", " ", "a", " padded ", "two\r\nlines\ttab", "ümlaut 日本 🐕", `"quoted" 'twice'`, `\/?#%&=+<>;`, "\x01\x1f\x7f\u0085\u2028\ufffe",
		"{}", "null", "1", "true", "2024-01-01T00:00:00Z", "W/\"x\"", strings.Repeat("x", 32<<10),
		strings.Repeat("🐕", 500), // not more: Azurite corrupts a character that is split between two packets
	} {
		all[fmt.Sprintf("c%d_X", i)] = text
	}
	one := t.submit(insert("p", "alone", all))
	t.holds("p", "alone", all, one[0])
	two := t.submit(insert("p", "first", all), change(table.Replace, "p", "alone", all, table.AnyVersion))
	t.holds("p", "first", all, two[0])
	t.holds("p", "alone", all, two[1])
	rows, _ := t.all(table.Query{Partition: "p", Top: 10})
	if len(rows) != 2 {
		t.Fatalf("query: %d rows, want 2", len(rows))
	}
	if diff := cmp.Diff(rows[1], table.Row{Partition: "p", Key: "first", Values: all, Version: two[0], WrittenAt: rows[1].WrittenAt}); diff != "" {
		t.Errorf("listed (-), want (+):\n%s", diff)
	}
	none := t.submit(insert("p", "none", nil))
	t.holds("p", "none", values{}, none[0])
}

// Changes to a caller's maps do not affect the table.
func tableIsolation(t *tableTest) {
	mine := values{"x": "1"}
	version := t.submit(insert("p", "a", mine))
	mine["x"] = "spoilt"
	for range 2 {
		row, err := t.table.Get(t.ctx, "p", "a")
		if err != nil || row.Values["x"] != "1" {
			t.Errorf("got %v, %v", row.Values, err)
		}
		row.Values["x"] = "spoilt"
	}
	rows, _ := t.all(table.Query{Top: 10})
	rows[0].Values["x"] = "spoilt"
	t.holds("p", "a", values{"x": "1"}, version[0])
	merged := values{"y": "2"}
	version = t.submit(change(table.Merge, "p", "a", merged, table.AnyVersion), insert("p", "b", nil))
	merged["y"] = "spoilt"
	t.holds("p", "a", values{"x": "1", "y": "2"}, version[0])
}

func insertTogether(t *tableTest) {
	const nodes = 8
	var winners atomic.Int64
	var wg sync.WaitGroup
	for i := range nodes { // all of them find the table missing
		wg.Go(func() {
			_, err := t.table.Submit(t.ctx, insert("p", "a", nil), insert("p", fmt.Sprint("b", i), nil))
			if err == nil {
				winners.Add(1)
			} else if !errors.Is(err, table.ErrExists) {
				t.Errorf("insert: %v, want success or %v", err, table.ErrExists)
			}
		})
	}
	wg.Wait()
	rows, _ := t.all(table.Query{Partition: "p", Top: 1000})
	if winners.Load() != 1 || len(rows) != 2 {
		t.Errorf("%d of %d inserted the row, %d rows; want 1 and 2 rows", winners.Load(), nodes, len(rows))
	}
}

func mergeAndReplace(t *tableTest) {
	seen := make(map[string]bool)
	version := t.submit(insert("p", "a", values{"x": "1", "y": "2"}))[0]
	for i, step := range []struct {
		verb   table.Verb
		v, now values
	}{
		{table.Merge, values{"y": "3"}, values{"x": "1", "y": "3"}},
		{table.Merge, nil, values{"x": "1", "y": "3"}},
		{table.Merge, values{"z": ""}, values{"x": "1", "y": "3", "z": ""}},
		{table.Replace, values{"y": "4"}, values{"y": "4"}},
		{table.Replace, values{"y": "4"}, values{"y": "4"}}, // the same value gets a new version
		{table.Replace, nil, values{}},
	} {
		seen[version] = true
		on := version
		if i%2 == 0 {
			on = table.AnyVersion
		}
		if i < 3 {
			version = t.submit(change(step.verb, "p", "a", step.v, on))[0]
		} else {
			version = t.submit(insert("p", fmt.Sprint("b", i), nil), change(step.verb, "p", "a", step.v, on))[1]
		}
		t.holds("p", "a", step.now, version)
		if seen[version] {
			t.Errorf("version %q was used twice", version)
		}
	}
}

func tableConditions(t *tableTest) {
	first := t.submit(insert("p", "a", values{"x": "1"}))[0]
	second := t.submit(change(table.Replace, "p", "a", values{"x": "2"}, first))[0]
	for _, version := range []string{first, oldVersion, "garbage", `"x"`, `W/"two` + "\n" + `lines"`} {
		for _, verb := range []table.Verb{table.Merge, table.Replace, table.Delete} {
			t.refused(table.ErrChanged, change(verb, "p", "a", nil, version))
			t.refused(table.ErrChanged, insert("p", "b", nil), change(verb, "p", "a", nil, version))
		}
	}
	t.refused(table.ErrExists, insert("p", "a", values{"x": "3"}))
	t.submit(insert("q", "a", nil)) // the same key in another partition
	t.holds("p", "a", values{"x": "2"}, second)
	t.missing("p", "b")
	t.submit(remove("p", "a", second))
	t.missing("p", "a")
	third := t.submit(insert("p", "a", nil))[0]
	t.refused(table.ErrChanged, remove("p", "a", second)) // versions are not reused
	t.holds("p", "a", values{}, third)
}

// If any row of a transaction fails, the other rows are unchanged.
func allOrNothing(t *tableTest) {
	version := t.submit(insert("p", "a", values{"x": "1"}), insert("p", "b", nil))
	good := []table.Write{
		change(table.Merge, "p", "a", values{"x": "2"}, version[0]),
		insert("p", "c", nil),
		remove("p", "b", version[1]),
	}
	for i, bad := range []struct {
		write table.Write
		want  error
	}{
		{insert("p", "a", nil), table.ErrExists},
		{change(table.Replace, "p", "none", nil, table.AnyVersion), table.ErrNotFound},
		{change(table.Merge, "p", "none", nil, table.AnyVersion), table.ErrNotFound},
		{remove("p", "none", table.AnyVersion), table.ErrNotFound},
		{remove("p", "b", oldVersion), table.ErrChanged},
		{change(table.Replace, "p", "a", nil, oldVersion), table.ErrChanged},
	} {
		for at := range len(good) + 1 {
			var writes []table.Write
			for j, w := range good {
				if j == at {
					writes = append(writes, bad.write)
				}
				if w.Row.Key != bad.write.Row.Key {
					writes = append(writes, w)
				}
			}
			if at == len(good) {
				writes = append(writes, bad.write)
			}
			t.refused(bad.want, writes...)
			t.holds("p", "a", values{"x": "1"}, version[0])
			t.holds("p", "b", values{}, version[1])
			t.missing("p", "c")
			if t.Failed() {
				t.Fatalf("with fault %d as row %d", i, at)
			}
		}
	}
	after := t.submit(append(good, insert("p", "d", values{"x": "4"}))...)
	t.holds("p", "a", values{"x": "2"}, after[0])
	t.holds("p", "c", values{}, after[1])
	t.missing("p", "b")
	t.holds("p", "d", values{"x": "4"}, after[3])
}

// Rows are inserted together with an update of a fence row. After the fence is
// deleted, no transaction takes partial effect.
func fence(t *tableTest) {
	const writers, each = 8, 10
	t.submit(insert("p", "!fence", values{"c": "1"}))
	var added atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				_, err := t.table.Submit(t.ctx, change(table.Merge, "p", "!fence", values{"seen": "yes"}, table.AnyVersion),
					insert("p", fmt.Sprint(w, "-", i), nil))
				switch {
				case err == nil && added.Add(1) == writers:
					t.submit(remove("p", "!fence", table.AnyVersion))
				case err != nil && !errors.Is(err, table.ErrNotFound):
					t.Errorf("insert: %v, want success or %v", err, table.ErrNotFound)
				}
			}
		})
	}
	wg.Wait()
	rows, _ := t.all(table.Query{Partition: "p", Top: 1000})
	if n := int(added.Load()); len(rows) != n || n == writers*each {
		t.Errorf("%d rows; %d inserts of %d succeeded", len(rows), n, writers*each)
	}
	t.missing("p", "!fence")
}
