package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/channels"
)

// TestTables checks everything that [channels.Table] promises, but for the
// limits: see [TestTableLimits]. Each call of newTable returns an empty table
// that does not even exist yet.
func TestTables(t *testing.T, newTable func(t *testing.T) channels.Table) {
	runTableTests(t, newTable, []tableTestCase{
		{"Absent", absentTable},
		{"Values", tableValues},
		{"Isolation", tableIsolation},
		{"InsertTwice", insertTwice},
		{"InsertTogether", insertTogether},
		{"MergeAndReplace", mergeAndReplace},
		{"Conditions", tableConditions},
		{"Recreated", recreatedRow},
		{"Transaction", transaction},
		{"AllOrNothing", allOrNothing},
		{"HundredRows", hundredRows},
		{"Fence", fence},
		{"Keys", tableKeys},
		{"Contention", tableContention},
		{"Cancelled", cancelledTable},
		{"Order", queryOrder},
		{"Pages", queryPages},
		{"Filters", queryFilters},
		{"FromTheFront", fromTheFront},
		{"Tokens", queryTokens},
	})
}

type tableTestCase struct {
	name string
	run  func(*tableTest)
}

func runTableTests(t *testing.T, newTable func(t *testing.T) channels.Table, tests []tableTestCase) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			test.run(&tableTest{T: t, ctx: ctx, table: newTable(t)})
		})
	}
}

// tableTest is one test with its table.
type tableTest struct {
	*testing.T
	ctx   context.Context
	table channels.Table
}

type values = map[string]string

func insert(partition, key string, v values) channels.Write {
	return channels.Write{Verb: channels.Insert, Row: channels.Row{Partition: partition, Key: key, Values: v}}
}

func change(verb channels.Verb, partition, key string, v values, version string) channels.Write {
	return channels.Write{Verb: verb, Row: channels.Row{Partition: partition, Key: key, Values: v}, If: version}
}

func remove(partition, key, version string) channels.Write {
	return change(channels.Delete, partition, key, nil, version)
}

// submit must succeed, and return a version for each row that is left.
func (t *tableTest) submit(writes ...channels.Write) []string {
	t.Helper()
	versions, err := t.table.Submit(t.ctx, writes)
	if err != nil {
		t.Fatal(err)
	}
	if len(versions) != len(writes) {
		t.Fatalf("%d versions for %d writes", len(versions), len(writes))
	}
	for i, w := range writes {
		if gone := w.Verb == channels.Delete; gone != (versions[i] == "") {
			t.Errorf("write %d returned version %q", i, versions[i])
		}
	}
	return versions
}

// refused says that the transaction fails with want.
func (t *tableTest) refused(want error, writes ...channels.Write) {
	t.Helper()
	if _, err := t.table.Submit(t.ctx, writes); !errors.Is(err, want) {
		t.Errorf("submit %.200v: %v, want %v", writes, err, want)
	}
}

func (t *tableTest) holds(partition, key string, v values, version string) {
	t.Helper()
	row, err := t.table.Get(t.ctx, partition, key)
	if err != nil {
		t.Error(err)
		return
	}
	want := channels.Row{Partition: partition, Key: key, Values: v, Version: version}
	if diff := cmp.Diff(row, want); diff != "" {
		t.Errorf("stored (-), want (+):\n%s", diff)
	}
}

func (t *tableTest) missing(partition, key string) {
	t.Helper()
	if row, err := t.table.Get(t.ctx, partition, key); !errors.Is(err, channels.ErrNotFound) {
		t.Errorf("get row %.80q of %.80q: %v, %v, want %v", key, partition, row, err, channels.ErrNotFound)
	}
}

const oldVersion = `W/"datetime'2020-01-01T00%3A00%3A00.0000000Z'"`

func absentTable(t *tableTest) {
	for i := range 2 { // without a table, and with one
		t.missing("p", "a")
		page, err := t.table.Query(t.ctx, channels.Query{Partition: "p", Top: 10})
		if err != nil || len(page.Rows) != 0 || page.Next != "" {
			t.Errorf("query: %v, %v, want an empty page", page, err)
		}
		for _, verb := range []channels.Verb{channels.Merge, channels.Replace, channels.Delete} {
			t.refused(channels.ErrNotFound, change(verb, "p", "a", nil, channels.AnyVersion))
			t.refused(channels.ErrNotFound, change(verb, "p", "a", nil, oldVersion))
			t.refused(channels.ErrNotFound, change(verb, "p", "a", nil, channels.AnyVersion), insert("p", "b", nil))
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
		strings.Repeat("🐕", 500), // not more: Azurite spoils what is on the edge between two packets
	} {
		all[fmt.Sprintf("c%d_X", i)] = text
	}
	one := t.submit(insert("p", "alone", all))
	t.holds("p", "alone", all, one[0])
	two := t.submit(insert("p", "first", all), change(channels.Replace, "p", "alone", all, channels.AnyVersion))
	t.holds("p", "first", all, two[0])
	t.holds("p", "alone", all, two[1])
	rows, _ := t.all(channels.Query{Partition: "p", Top: 10})
	if len(rows) != 2 {
		t.Fatalf("query: %d rows, want 2", len(rows))
	}
	if diff := cmp.Diff(rows[1], channels.Row{Partition: "p", Key: "first", Values: all, Version: two[0]}); diff != "" {
		t.Errorf("listed (-), want (+):\n%s", diff)
	}
	none := t.submit(insert("p", "none", nil))
	t.holds("p", "none", values{}, none[0])
}

// What a caller does to its own maps does not reach the table.
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
	rows, _ := t.all(channels.Query{Top: 10})
	rows[0].Values["x"] = "spoilt"
	t.holds("p", "a", values{"x": "1"}, version[0])
	merged := values{"y": "2"}
	version = t.submit(change(channels.Merge, "p", "a", merged, channels.AnyVersion), insert("p", "b", nil))
	merged["y"] = "spoilt"
	t.holds("p", "a", values{"x": "1", "y": "2"}, version[0])
}

func insertTwice(t *tableTest) {
	version := t.submit(insert("p", "a", values{"x": "1"}))
	t.refused(channels.ErrExists, insert("p", "a", values{"x": "2"}))
	t.refused(channels.ErrExists, insert("p", "b", nil), insert("p", "a", values{"x": "2"}))
	t.holds("p", "a", values{"x": "1"}, version[0])
	t.missing("p", "b")
	t.submit(insert("q", "a", nil)) // the same key elsewhere
}

func insertTogether(t *tableTest) {
	const nodes = 16
	var mu sync.Mutex
	winners := 0
	var wg sync.WaitGroup
	for i := range nodes { // all of them find the table missing
		wg.Go(func() {
			_, err := t.table.Submit(t.ctx, []channels.Write{insert("p", "a", nil), insert("p", fmt.Sprint("b", i), nil)})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				winners++
			} else if !errors.Is(err, channels.ErrExists) {
				t.Errorf("insert: %v, want success or %v", err, channels.ErrExists)
			}
		})
	}
	wg.Wait()
	rows, _ := t.all(channels.Query{Partition: "p", Top: 1000})
	if winners != 1 || len(rows) != 2 {
		t.Errorf("%d of %d inserted the row, %d rows; want 1 and 2 rows", winners, nodes, len(rows))
	}
}

func mergeAndReplace(t *tableTest) {
	seen := make(map[string]bool)
	version := t.submit(insert("p", "a", values{"x": "1", "y": "2"}))[0]
	for i, step := range []struct {
		verb   channels.Verb
		v, now values
	}{
		{channels.Merge, values{"y": "3"}, values{"x": "1", "y": "3"}},
		{channels.Merge, nil, values{"x": "1", "y": "3"}},
		{channels.Merge, values{"z": ""}, values{"x": "1", "y": "3", "z": ""}},
		{channels.Replace, values{"y": "4"}, values{"y": "4"}},
		{channels.Replace, values{"y": "4"}, values{"y": "4"}}, // the same again is another version
		{channels.Replace, nil, values{}},
	} {
		seen[version] = true
		on := version
		if i%2 == 0 {
			on = channels.AnyVersion
		}
		if i < 3 {
			version = t.submit(change(step.verb, "p", "a", step.v, on))[0]
		} else {
			version = t.submit(insert("p", fmt.Sprint("b", i), nil), change(step.verb, "p", "a", step.v, on))[1]
		}
		t.holds("p", "a", step.now, version)
		if seen[version] {
			t.Errorf("version %q came twice", version)
		}
	}
}

func tableConditions(t *tableTest) {
	first := t.submit(insert("p", "a", values{"x": "1"}))[0]
	second := t.submit(change(channels.Replace, "p", "a", values{"x": "2"}, first))[0]
	for _, version := range []string{first, oldVersion, "garbage", `"x"`, `W/"two` + "\n" + `lines"`} {
		for _, verb := range []channels.Verb{channels.Merge, channels.Replace, channels.Delete} {
			t.refused(channels.ErrChanged, change(verb, "p", "a", nil, version))
			t.refused(channels.ErrChanged, insert("p", "b", nil), change(verb, "p", "a", nil, version))
		}
	}
	t.holds("p", "a", values{"x": "2"}, second)
	t.missing("p", "b")
	t.submit(remove("p", "a", second))
	t.missing("p", "a")
}

func recreatedRow(t *tableTest) {
	first := t.submit(insert("p", "a", nil))[0]
	t.submit(remove("p", "a", channels.AnyVersion))
	second := t.submit(insert("p", "a", nil))[0]
	if second == first {
		t.Errorf("version %q came again", first)
	}
	t.refused(channels.ErrChanged, remove("p", "a", first))
	t.holds("p", "a", values{}, second)
}

func transaction(t *tableTest) {
	before := t.submit(insert("p", "merged", values{"x": "1"}), insert("p", "replaced", values{"x": "1"}), insert("p", "deleted", nil))
	after := t.submit(
		change(channels.Merge, "p", "merged", values{"y": "2"}, before[0]),
		insert("p", "inserted", values{"x": "3"}),
		remove("p", "deleted", before[2]),
		change(channels.Replace, "p", "replaced", values{"y": "2"}, channels.AnyVersion))
	t.holds("p", "merged", values{"x": "1", "y": "2"}, after[0])
	t.holds("p", "inserted", values{"x": "3"}, after[1])
	t.missing("p", "deleted")
	t.holds("p", "replaced", values{"y": "2"}, after[3])
}

// Whichever row is the one that fails, the others are as they were.
func allOrNothing(t *tableTest) {
	version := t.submit(insert("p", "a", values{"x": "1"}), insert("p", "b", nil))
	good := []channels.Write{
		change(channels.Merge, "p", "a", values{"x": "2"}, version[0]),
		insert("p", "c", nil),
		remove("p", "b", version[1]),
	}
	for i, bad := range []struct {
		write channels.Write
		want  error
	}{
		{insert("p", "a", nil), channels.ErrExists},
		{change(channels.Replace, "p", "none", nil, channels.AnyVersion), channels.ErrNotFound},
		{change(channels.Merge, "p", "none", nil, channels.AnyVersion), channels.ErrNotFound},
		{remove("p", "none", channels.AnyVersion), channels.ErrNotFound},
		{remove("p", "b", oldVersion), channels.ErrChanged},
		{change(channels.Replace, "p", "a", nil, oldVersion), channels.ErrChanged},
	} {
		for at := range len(good) + 1 {
			var writes []channels.Write
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
}

func hundredRows(t *tableTest) {
	var inserts, removes []channels.Write
	for i := range channels.MaxTransaction {
		inserts = append(inserts, insert("p", fmt.Sprintf("%03d", i), values{"x": fmt.Sprint(i)}))
		removes = append(removes, remove("p", fmt.Sprintf("%03d", i), channels.AnyVersion))
	}
	versions := t.submit(inserts...)
	for _, i := range []int{0, 1, 50, 99} {
		t.holds("p", fmt.Sprintf("%03d", i), values{"x": fmt.Sprint(i)}, versions[i])
	}
	t.submit(remove("p", "050", channels.AnyVersion))
	t.refused(channels.ErrNotFound, removes...) // one is gone, so all stay
	t.holds("p", "099", values{"x": "99"}, versions[99])
	t.submit(append(removes[:50:50], removes[51:]...)...)
	if rows, _ := t.all(channels.Query{Partition: "p", Top: 10}); len(rows) != 0 {
		t.Errorf("%v are left", rows)
	}
}

// A row that has to be there for others to be added: when it is gone, nobody
// is half in.
func fence(t *tableTest) {
	const writers, each = 8, 10
	t.submit(insert("p", "!fence", values{"c": "1"}))
	var mu sync.Mutex
	added := 0
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				_, err := t.table.Submit(t.ctx, []channels.Write{
					change(channels.Merge, "p", "!fence", values{"seen": "yes"}, channels.AnyVersion),
					insert("p", fmt.Sprint(w, "-", i), nil),
				})
				mu.Lock()
				switch {
				case err == nil:
					added++
				case !errors.Is(err, channels.ErrNotFound):
					t.Errorf("insert: %v, want success or %v", err, channels.ErrNotFound)
				}
				first := added == writers && err == nil
				mu.Unlock()
				if first {
					t.submit(remove("p", "!fence", channels.AnyVersion))
				}
			}
		})
	}
	wg.Wait()
	rows, _ := t.all(channels.Query{Partition: "p", Top: 1000})
	if len(rows) != added {
		t.Errorf("%d rows; %d inserts succeeded", len(rows), added)
	}
	t.missing("p", "!fence")
	if added == writers*each {
		t.Errorf("all %d inserts succeeded: the fence kept nobody out", added)
	}
}

func tableKeys(t *tableTest) {
	keys := []string{
		"a", "A", "a b", " a ", "a+b", "a%20b", "100%", "a&b=c", "a,b;c:d@e$f!", "(a)", "[a]", "{a}", `"a"`, "<a>", "^a`|~", "~1", "ä", "日本", "🐕",
		".", "..", "a.", "null", "0", "-", strings.Repeat("k", 512), strings.Repeat("🐕", 256),
	}
	for i, key := range keys {
		v := values{"x": fmt.Sprint(i)}
		version := t.submit(insert(key, key, v))[0]
		t.holds(key, key, v, version)
		versions := t.submit(change(channels.Merge, key, key, values{"y": "1"}, version), insert(key, "second", nil))
		v["y"] = "1"
		t.holds(key, key, v, versions[0])
		rows, _ := t.all(channels.Query{Partition: key, Key: key, Top: 10})
		if len(rows) != 1 || rows[0].Values["x"] != fmt.Sprint(i) {
			t.Errorf("query partition and key %.80q: %v", key, rows)
		}
		t.submit(change(channels.Replace, key, key, v, versions[0]))
		t.submit(remove(key, key, channels.AnyVersion), remove(key, "second", channels.AnyVersion))
		t.missing(key, key)
		t.submit(insert(key, key, v))
		t.submit(remove(key, key, channels.AnyVersion))
	}
}

// Many nodes add one by compare-and-swap: each success is one addition, and no
// addition overwrites another.
func tableContention(t *tableTest) {
	const nodes, each = 16, 4
	t.submit(insert("p", "n", values{"n": "0"}))
	var wg sync.WaitGroup
	for node := range nodes {
		wg.Go(func() {
			for done := 0; done < each; {
				row, err := t.table.Get(t.ctx, "p", "n")
				if err != nil {
					t.Error(err)
					return
				}
				next := change(channels.Replace, "p", "n", values{"n": row.Values["n"] + "+"}, row.Version)
				writes := []channels.Write{next}
				if node%2 == 0 {
					writes = append(writes, insert("p", fmt.Sprint(node, "-", done), nil))
				}
				switch _, err = t.table.Submit(t.ctx, writes); {
				case err == nil:
					done++
				case !errors.Is(err, channels.ErrChanged):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	row, err := t.table.Get(t.ctx, "p", "n")
	if got, want := len(row.Values["n"])-1, nodes*each; err != nil || got != want {
		t.Errorf("%d additions are left of %d, %v", got, want, err)
	}
}

func cancelledTable(t *tableTest) {
	version := t.submit(insert("p", "a", nil))[0]
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	_, got := t.table.Get(ctx, "p", "a")
	_, queried := t.table.Query(ctx, channels.Query{Top: 1})
	_, one := t.table.Submit(ctx, []channels.Write{remove("p", "a", version)})
	_, two := t.table.Submit(ctx, []channels.Write{remove("p", "a", version), insert("p", "b", nil)})
	for op, err := range map[string]error{"get": got, "query": queried, "submit": one, "submit two": two} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", op, err, context.Canceled)
		}
	}
	t.holds("p", "a", values{}, version)
	t.missing("p", "b")
}
