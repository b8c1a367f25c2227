package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/table"
)

func tableKeys(t *tableTest) {
	keys := []string{
		"a", "A", "a b", " a ", "a+b", "a%20b", "100%", "a&b=c", "a,b;c:d@e$f!", "(a)", "[a]", "{a}", `"a"`, "<a>", "^a`|~", "~1", "ä", "日本", "🐕",
		".", "..", "a.", "null", "0", "-", strings.Repeat("k", 512), strings.Repeat("🐕", 256),
	}
	for i, key := range keys {
		v := values{"x": fmt.Sprint(i)}
		version := t.submit(insert(key, key, v))[0]
		t.holds(key, key, v, version)
		versions := t.submit(change(table.Merge, key, key, values{"y": "1"}, version), insert(key, "second", nil))
		v["y"] = "1"
		t.holds(key, key, v, versions[0])
		rows, _ := t.all(table.Query{Partition: key, Key: key, Top: 10})
		if len(rows) != 1 || rows[0].Values["x"] != fmt.Sprint(i) {
			t.Errorf("query partition and key %.80q: %v", key, rows)
		}
		t.submit(change(table.Replace, key, key, v, versions[0]))
		t.submit(remove(key, key, table.AnyVersion), remove(key, "second", table.AnyVersion))
		t.missing(key, key)
		t.submit(insert(key, key, v))
		t.submit(remove(key, key, table.AnyVersion))
	}
}

// Requests that package table rejects are not sent.
func refusedWrites(t *tableTest) {
	t.refused(table.ErrLimit)
	t.refused(table.ErrLimit, insert("p", "a", nil), insert("q", "b", nil))
	t.refused(table.ErrLimit, insert("p", "a/b", nil))
	t.refused(table.ErrLimit, insert("p", "a", values{"x": strings.Repeat("x", 32<<10+1)}))
	t.refused(table.ErrLimit, remove("p", "a", ""))
	for _, q := range []table.Query{{Top: 0}, {Top: 1001}, {Key: "a'b", Top: 1}} {
		if page, err := t.table.Query(t.ctx, q); !errors.Is(err, table.ErrLimit) {
			t.Errorf("query %+v: %v, %v, want %v", q, page, err, table.ErrLimit)
		}
	}
	if rows, _ := t.all(table.Query{Top: 1}); len(rows) != 0 {
		t.Errorf("%v was stored", rows)
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

	var many []table.Write
	for i := range Scale(10, 100) {
		many = append(many, insert("q", fmt.Sprint("r", i), values{"x": strings.Repeat("x", 32<<10), "y": strings.Repeat("y", 7<<10)}))
	}
	t.submit(many...)
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
	for _, top := range []int{1, 5, 1000} {
		if diff := cmp.Diff(t.keys(table.Query{Top: top}), want); diff != "" {
			t.Errorf("in pages of %d (-), want (+):\n%s", top, diff)
		}
	}
	if diff := cmp.Diff(t.keys(table.Query{Partition: "a!", Top: 4}), want[6:12]); diff != "" {
		t.Errorf("of one partition (-), want (+):\n%s", diff)
	}
}

func queryPages(t *tableTest) {
	n := Scale(1100, 2500)
	t.fill("p", n)
	t.fill("q", 3)
	for _, top := range []int{1000, 550} {
		rows, pages := t.all(table.Query{Partition: "p", Top: top, KeysOnly: true})
		if len(rows) != n || pages < (n+top-1)/top {
			t.Errorf("%d rows on %d pages of %d, want %d", len(rows), pages, top, n)
		}
		for i, row := range rows {
			if row.Key != fmt.Sprintf("%05d", i) || row.Partition != "p" || row.Values != nil || row.Version != "" {
				t.Fatalf("row %d is %+v", i, row)
			}
		}
	}
	if rows, _ := t.all(table.Query{Key: "00001", Top: 10, KeysOnly: true}); len(rows) != 2 || rows[1].Partition != "q" {
		t.Errorf("keys of all partitions: %+v, want those of p and q", rows)
	}

	// A token stays valid when rows before and after it are deleted and
	// inserted.
	var page table.Page
	for len(page.Rows) == 0 {
		var err error
		if page, err = t.table.Query(t.ctx, table.Query{Partition: "p", Top: 1, After: page.Next}); err != nil || page.Next == "" {
			t.Fatalf("query: %v, %v", page, err)
		}
	}
	t.submit(remove("p", "00000", table.AnyVersion), remove("p", "00001", table.AnyVersion), insert("p", "00000a", nil))
	rest, _ := t.all(table.Query{Partition: "p", Top: 1000, After: page.Next})
	if got := len(rest) - (n - 2); got < 0 || rest[got].Key != "00002" || rest[len(rest)-1].Key != fmt.Sprintf("%05d", n-1) {
		t.Errorf("%d rows follow, want those from 00002 on", len(rest))
	}
}

func queryMaxBytes(t *tableTest) {
	t.submit(insert("p", "a", values{"x": strings.Repeat("x", 10<<10)}), insert("p", "b", values{"x": strings.Repeat("x", 10<<10)}))
	for _, limit := range []int{0, 15 << 10, 25 << 10} { // a page of both rows has 20 KiB
		top := 2
		if limit == 15<<10 {
			top = 1
		}
		if rows, _ := t.all(table.Query{Partition: "p", Top: top, MaxBytes: limit}); len(rows) != 2 {
			t.Errorf("%d rows by pages of %d rows and %d bytes, want 2", len(rows), top, limit)
		}
	}
	q := table.Query{Partition: "p", Top: 2, MaxBytes: 5 << 10}
	for {
		page, err := t.table.Query(t.ctx, q)
		if errors.Is(err, table.ErrLarge) {
			return
		}
		if q.After = page.Next; err != nil || len(page.Rows) > 0 || q.After == "" {
			t.Fatalf("a page of at least 10 KiB: %d rows, %v, want %v", len(page.Rows), err, table.ErrLarge)
		}
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
	for _, tt := range []struct {
		name string
		q    table.Query
		want []string
	}{
		{"key of all", table.Query{Key: "1"}, []string{"p/1", "q/1", "r/1"}},
		{"key of one", table.Query{Partition: "q", Key: "1"}, []string{"q/1"}},
		{"no such key", table.Query{Key: "9"}, nil},
		{"above", table.Query{Partition: "q", Above: "!fence"}, []string{"q/1", "q/2", "q/3"}},
		{"above of all", table.Query{Above: "2"}, []string{"p/3", "q/3", "r/3"}},
		{"above nothing there", table.Query{Partition: "q", Above: "15"}, []string{"q/2", "q/3"}},
		{"above the last", table.Query{Partition: "q", Above: "3"}, nil},
		{"below", table.Query{Partition: "q", Below: "2"}, []string{"q/!fence", "q/1"}},
		{"below of all", table.Query{Below: "1"}, []string{"p/!fence", "q/!fence", "r/!fence"}},
		{"between", table.Query{Partition: "q", Above: "!fence", Below: "3"}, []string{"q/1", "q/2"}},
		{"between of all", table.Query{Above: "1", Below: "3"}, []string{"p/2", "q/2", "r/2"}},
		{"between keys that do not exist", table.Query{Partition: "q", Above: "05", Below: "15"}, []string{"q/1"}},
		{"between none", table.Query{Partition: "q", Above: "2", Below: "2"}, nil},
		{"above the upper end", table.Query{Partition: "q", Above: "3", Below: "1"}, nil},
		{"column", table.Query{Column: "state", Value: "deleting"}, []string{"p/2", "q/2", "r/2"}},
		{"column of one", table.Query{Partition: "r", Column: "state", Value: "done"}, []string{"r/1"}},
		{"quotes", table.Query{Column: "state", Value: `it's "up"`}, []string{"p/!fence", "q/!fence", "r/!fence"}},
		{"no such column", table.Query{Column: "none", Value: "x"}, nil},
		{"all together", table.Query{Partition: "p", Key: "2", Above: "1", Below: "3", Column: "state", Value: "deleting"}, []string{"p/2"}},
	} {
		for _, top := range []int{1, 1000} {
			q := tt.q
			q.Top = top
			if diff := cmp.Diff(t.keys(q), tt.want); diff != "" {
				t.Errorf("%s, in pages of %d (-), want (+):\n%s", tt.name, top, diff)
			}
		}
	}
}

func queryColumns(t *tableTest) {
	t.submit(
		insert("p", "1", values{"x": "1", "null": "null", "long": strings.Repeat("l", 1000)}),
		insert("p", "2", values{"y": "2"}))
	rows, _ := t.all(table.Query{Partition: "p", Columns: []string{"x", "y", "null"}, Top: 10})
	if len(rows) != 2 {
		t.Fatalf("%d rows, want 2", len(rows))
	}
	for i, want := range []values{{"x": "1", "null": "null"}, {"y": "2"}} {
		row := rows[i]
		if diff := cmp.Diff(want, row.Values); diff != "" || row.Partition != "p" || row.Key != fmt.Sprint(i+1) || row.Version != "" || row.WrittenAt.IsZero() {
			t.Errorf("row %+v, values (-want +got):\n%s", row, diff)
		}
	}
	rows, _ = t.all(table.Query{Partition: "p", Columns: []string{"none"}, Column: "x", Value: "1", MaxBytes: 900, Top: 10})
	if len(rows) != 1 || len(rows[0].Values) != 0 {
		t.Errorf("%+v, want the first row without a column", rows)
	}
}

func queryTokens(t *tableTest) {
	t.fill("p", 3)
	t.fill("q", 3)
	for _, token := range []string{"x", "p", "!!!", "%zz", strings.Repeat("x", 5000), "\x00"} {
		if page, err := t.table.Query(t.ctx, table.Query{Partition: "p", Top: 1, After: token}); !errors.Is(err, table.ErrToken) {
			t.Errorf("token %.20q: %v, %v, want %v", token, page, err, table.ErrToken)
		}
	}
	// A token from another query must not return rows outside the query.
	page, err := t.table.Query(t.ctx, table.Query{Partition: "q", Top: 1})
	if err != nil || page.Next == "" {
		t.Fatalf("query: %v, %v", page, err)
	}
	page, err = t.table.Query(t.ctx, table.Query{Partition: "p", Top: 1000, After: page.Next})
	for _, row := range page.Rows {
		if row.Partition != "p" {
			t.Errorf("row %+v is of another partition", row)
		}
	}
	if err != nil && !errors.Is(err, table.ErrToken) {
		t.Errorf("another's token: %v", err)
	}
}

func cancelledTable(t *tableTest) {
	version := t.submit(insert("p", "a", nil))[0]
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	_, got := t.table.Get(ctx, "p", "a")
	_, queried := t.table.Query(ctx, table.Query{Top: 1})
	_, one := t.table.Submit(ctx, remove("p", "a", version))
	_, two := t.table.Submit(ctx, remove("p", "a", version), insert("p", "b", nil))
	for op, err := range map[string]error{"get": got, "query": queried, "submit": one, "submit two": two} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", op, err, context.Canceled)
		}
	}
	t.holds("p", "a", values{}, version)
	t.missing("p", "b")
}
