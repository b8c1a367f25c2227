package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kennel/channels"
)

// TestTableLimits checks that a table refuses what Azure refuses, also where
// the emulator takes it, and takes what is just within.
func TestTableLimits(t *testing.T, newTable func(t *testing.T) channels.Table) {
	runTableTests(t, newTable, []tableTestCase{
		{"Refused", refusedWrites},
		{"Taken", largeWrites},
		{"Queries", refusedQueries},
	})
}

func refusedWrites(t *tableTest) {
	rows := func(n int, v values) (writes []channels.Write) {
		for i := range n {
			writes = append(writes, insert("p", fmt.Sprint("r", i), v))
		}
		return writes
	}
	wide := values{}
	for i := range 253 {
		wide[fmt.Sprint("c", i)] = ""
	}
	heavy := values{}
	for i := range 16 {
		heavy[fmt.Sprint("c", i)] = strings.Repeat("x", 32<<10)
	}
	tests := map[string][]channels.Write{
		"no rows":              {},
		"101 rows":             rows(101, nil),
		"two partitions":       {insert("p", "a", nil), insert("q", "b", nil)},
		"a row twice":          {insert("p", "a", nil), insert("p", "a", nil)},
		"deleted and inserted": {remove("p", "a", channels.AnyVersion), insert("p", "a", nil)},
		"row of 1 MiB":         {insert("p", "a", heavy)},
		"253 columns":          {insert("p", "a", wide)},
		"value above 64 KiB":   {insert("p", "a", values{"x": strings.Repeat("x", 32<<10+1)})},
		"the same in UTF-16":   {insert("p", "a", values{"x": strings.Repeat("🐕", 16<<10+1)})},
		"4 MiB at once":        rows(100, values{"x": strings.Repeat("x", 32<<10), "y": strings.Repeat("x", 10<<10)}),
		"4 MiB when escaped":   rows(100, values{"x": strings.Repeat("<", 8<<10)}),
		"no text":              {insert("p", "a", values{"x": "\xff"})},
		"NUL":                  {insert("p", "a", values{"x": "a\x00b"})},
		"no verb":              {{Row: channels.Row{Partition: "p", Key: "a"}}},
		"unknown verb":         {change(channels.Delete+1, "p", "a", nil, channels.AnyVersion)},
		"insert on condition":  {change(channels.Insert, "p", "a", nil, channels.AnyVersion)},
		"delete without":       {remove("p", "a", "")},
	}
	for _, key := range []string{"", "a/b", `a\b`, "a#b", "a?b", "a'b", "a\x00b", "a\tb", "a\nb", "\x1f", "\x7f", "\u0085", "\u009f", "\xff",
		strings.Repeat("k", 513), strings.Repeat("🐕", 257), strings.Repeat("k", 2<<10)} {
		tests[fmt.Sprintf("key %.20q", key)] = []channels.Write{insert("p", key, nil)}
		tests[fmt.Sprintf("partition %.20q", key)] = []channels.Write{insert(key, "a", nil)}
		tests[fmt.Sprintf("deleted key %.20q", key)] = []channels.Write{insert("p", "a", nil), remove("p", key, channels.AnyVersion)}
	}
	for _, column := range []string{"", "PartitionKey", "RowKey", "Timestamp", "1a", "_a", "a b", "a.b", "a-b", "ä", "odata.etag", "a@odata.type", strings.Repeat("c", 256)} {
		tests[fmt.Sprintf("column %.20q", column)] = []channels.Write{insert("p", "a", values{column: ""})}
	}
	for name, writes := range tests {
		if _, err := t.table.Submit(t.ctx, writes); !errors.Is(err, channels.ErrLimit) {
			t.Errorf("%s: %v, want %v", name, err, channels.ErrLimit)
		}
	}
	page, err := t.table.Query(t.ctx, channels.Query{Top: 1})
	if err != nil || len(page.Rows) != 0 {
		t.Errorf("%v, %v came in", page.Rows, err)
	}
}

func largeWrites(t *tableTest) {
	wide := values{}
	for i := range 252 {
		wide[fmt.Sprint("c", i)] = "x"
	}
	wide[strings.Repeat("c", 255)] = "x"
	delete(wide, "c0")
	version := t.submit(insert("p", "wide", wide))
	t.holds("p", "wide", wide, version[0])

	heavy := values{"y": strings.Repeat("y", 32<<9)}
	for i := range 15 {
		heavy[fmt.Sprint("c", i)] = strings.Repeat("x", 32<<10)
	}
	version = t.submit(insert("p", "heavy", heavy))
	t.holds("p", "heavy", heavy, version[0])

	var many []channels.Write
	for i := range 100 {
		many = append(many, insert("q", fmt.Sprint("r", i), values{"x": strings.Repeat("x", 32<<10), "y": strings.Repeat("y", 7<<10)}))
	}
	t.submit(many...)
}

func refusedQueries(t *tableTest) {
	for name, q := range map[string]channels.Query{
		"top 0":     {Top: 0},
		"top -1":    {Top: -1},
		"top 1001":  {Top: 1001},
		"partition": {Partition: "a/b", Top: 1},
		"key":       {Key: "a'b", Top: 1},
		"above":     {Above: "a\x00", Top: 1},
		"column":    {Column: "a eq b or c", Value: "1", Top: 1},
	} {
		if page, err := t.table.Query(t.ctx, q); !errors.Is(err, channels.ErrLimit) {
			t.Errorf("%s: %v, %v, want %v", name, page, err, channels.ErrLimit)
		}
	}
}

// all follows the pages of a query and says how many there were.
func (t *tableTest) all(q channels.Query) (rows []channels.Row, pages int) {
	t.Helper()
	for {
		page, err := t.table.Query(t.ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Rows) > q.Top {
			t.Errorf("%d rows on a page of %d", len(page.Rows), q.Top)
		}
		rows = append(rows, page.Rows...)
		if pages++; page.Next == "" || pages > 10_000 {
			return rows, pages
		}
		q.After = page.Next
	}
}

func (t *tableTest) keys(q channels.Query) (keys []string) {
	t.Helper()
	rows, _ := t.all(q)
	for _, row := range rows {
		keys = append(keys, row.Partition+"/"+row.Key)
	}
	return keys
}

func queryOrder(t *tableTest) {
	for _, partition := range []string{"b", "a", "ab", "a!"} {
		for _, key := range []string{"2", "10", "!x", "1", "~", "a"} {
			t.submit(insert(partition, key, nil))
		}
	}
	var want []string
	for _, partition := range []string{"a", "a!", "ab", "b"} {
		for _, key := range []string{"!x", "1", "10", "2", "a", "~"} {
			want = append(want, partition+"/"+key)
		}
	}
	for _, top := range []int{1, 5, 6, 1000} {
		if diff := cmp.Diff(t.keys(channels.Query{Top: top}), want); diff != "" {
			t.Errorf("in pages of %d (-), want (+):\n%s", top, diff)
		}
	}
	if diff := cmp.Diff(t.keys(channels.Query{Partition: "a!", Top: 4}), want[6:12]); diff != "" {
		t.Errorf("of one partition (-), want (+):\n%s", diff)
	}
}

// fill puts n rows into the partition, named by their numbers.
func (t *tableTest) fill(partition string, n int) {
	t.Helper()
	var writes []channels.Write
	for i := range n {
		writes = append(writes, insert(partition, fmt.Sprintf("%05d", i), values{"x": fmt.Sprint(i)}))
	}
	for some := range slices.Chunk(writes, channels.MaxTransaction) {
		t.submit(some...)
	}
}

func queryPages(t *tableTest) {
	const n = 2500
	t.fill("p", n)
	t.fill("q", 3)
	for _, top := range []int{1000, 999, 500} {
		rows, pages := t.all(channels.Query{Partition: "p", Top: top, KeysOnly: true})
		if len(rows) != n || pages < (n+top-1)/top {
			t.Errorf("%d rows on %d pages of %d, want %d", len(rows), pages, top, n)
		}
		for i, row := range rows {
			if row.Key != fmt.Sprintf("%05d", i) || row.Partition != "p" || row.Values != nil || row.Version != "" {
				t.Fatalf("row %d is %+v", i, row)
			}
		}
	}
	if rows, _ := t.all(channels.Query{Key: "00001", Top: 10, KeysOnly: true}); len(rows) != 2 || rows[1].Partition != "q" {
		t.Errorf("keys of all partitions: %+v, want those of p and q", rows)
	}

	// A place in the list stays one when rows before and behind it go and come.
	var page channels.Page
	for len(page.Rows) == 0 {
		var err error
		if page, err = t.table.Query(t.ctx, channels.Query{Partition: "p", Top: 1, After: page.Next}); err != nil || page.Next == "" {
			t.Fatalf("query: %v, %v", page, err)
		}
	}
	t.submit(remove("p", "00000", channels.AnyVersion), remove("p", "00001", channels.AnyVersion), insert("p", "00000a", nil))
	rest, _ := t.all(channels.Query{Partition: "p", Top: 1000, After: page.Next})
	if n := len(rest); n < 2498 || rest[n-2498].Key != "00002" || rest[n-1].Key != "02499" {
		t.Errorf("%d rows follow, want those from 00002 on", n)
	}
}

func queryFilters(t *tableTest) {
	for _, partition := range []string{"p", "q", "r"} {
		t.submit(
			insert(partition, "!fence", values{"state": "it's \"up\""}),
			insert(partition, "1", values{"state": "done"}),
			insert(partition, "2", values{"state": "deleting"}),
			insert(partition, "3", values{"other": "done"}))
	}
	for _, test := range []struct {
		name string
		q    channels.Query
		want []string
	}{
		{"key of all", channels.Query{Key: "1"}, []string{"p/1", "q/1", "r/1"}},
		{"key of one", channels.Query{Partition: "q", Key: "1"}, []string{"q/1"}},
		{"no such key", channels.Query{Key: "9"}, nil},
		{"above", channels.Query{Partition: "q", Above: "!fence"}, []string{"q/1", "q/2", "q/3"}},
		{"above of all", channels.Query{Above: "2"}, []string{"p/3", "q/3", "r/3"}},
		{"above nothing there", channels.Query{Partition: "q", Above: "15"}, []string{"q/2", "q/3"}},
		{"above the last", channels.Query{Partition: "q", Above: "3"}, nil},
		{"column", channels.Query{Column: "state", Value: "deleting"}, []string{"p/2", "q/2", "r/2"}},
		{"column of one", channels.Query{Partition: "r", Column: "state", Value: "done"}, []string{"r/1"}},
		{"quotes", channels.Query{Column: "state", Value: `it's "up"`}, []string{"p/!fence", "q/!fence", "r/!fence"}},
		{"no such column", channels.Query{Column: "none", Value: "x"}, nil},
		{"all together", channels.Query{Partition: "p", Key: "2", Above: "1", Column: "state", Value: "deleting"}, []string{"p/2"}},
	} {
		for _, top := range []int{1, 2, 1000} {
			q := test.q
			q.Top = top
			if diff := cmp.Diff(t.keys(q), test.want); diff != "" {
				t.Errorf("%s, in pages of %d (-), want (+):\n%s", test.name, top, diff)
			}
		}
	}
}

// Whoever deletes what is in front needs no token.
func fromTheFront(t *tableTest) {
	t.fill("p", 300)
	t.fill("q", 1)
	seen := 0
	for {
		page, err := t.table.Query(t.ctx, channels.Query{Partition: "p", Top: 100, KeysOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		var removes []channels.Write
		for _, row := range page.Rows {
			if want := fmt.Sprintf("%05d", seen); row.Key != want {
				t.Fatalf("in front is %q, want %q", row.Key, want)
			}
			seen++
			removes = append(removes, remove("p", row.Key, channels.AnyVersion))
		}
		if len(removes) > 0 {
			t.submit(removes...)
		} else if page.Next == "" {
			break
		}
	}
	if seen != 300 {
		t.Errorf("%d rows were in front, want 300", seen)
	}
	t.missing("p", "00299")
	if got := t.keys(channels.Query{Top: 10}); !slices.Equal(got, []string{"q/00000"}) {
		t.Errorf("left are %v, want the other partition's", got)
	}
}

func queryTokens(t *tableTest) {
	t.fill("p", 3)
	t.fill("q", 3)
	for _, token := range []string{"x", "p", "!!!", "%zz", strings.Repeat("x", 5000), "\x00"} {
		if page, err := t.table.Query(t.ctx, channels.Query{Partition: "p", Top: 1, After: token}); !errors.Is(err, channels.ErrToken) {
			t.Errorf("token %.20q: %v, %v, want %v", token, page, err, channels.ErrToken)
		}
	}
	// Another query's token is no way out of one's own.
	page, err := t.table.Query(t.ctx, channels.Query{Partition: "q", Top: 1})
	if err != nil || page.Next == "" {
		t.Fatalf("query: %v, %v", page, err)
	}
	page, err = t.table.Query(t.ctx, channels.Query{Partition: "p", Top: 1000, After: page.Next})
	for _, row := range page.Rows {
		if row.Partition != "p" {
			t.Errorf("row %+v is of another partition", row)
		}
	}
	if err != nil && !errors.Is(err, channels.ErrToken) {
		t.Errorf("another's token: %v", err)
	}
}
