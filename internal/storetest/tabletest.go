package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/table"
)

// tableTest is one test with its table.
type tableTest struct {
	*testing.T
	ctx   context.Context
	table table.Store
}

type values = map[string]string

func insert(partition, key string, v values) table.Write {
	return table.Write{Verb: table.Insert, Row: table.Row{Partition: partition, Key: key, Values: v}}
}

func change(verb table.Verb, partition, key string, v values, version string) table.Write {
	return table.Write{Verb: verb, Row: table.Row{Partition: partition, Key: key, Values: v}, If: version}
}

func remove(partition, key, version string) table.Write {
	return change(table.Delete, partition, key, nil, version)
}

// submit must succeed and return a version for each row that is not deleted.
func (t *tableTest) submit(writes ...table.Write) []string {
	t.Helper()
	versions, err := t.table.Submit(t.ctx, writes...)
	if err != nil {
		t.Fatal(err)
	}
	if len(versions) != len(writes) {
		t.Fatalf("%d versions for %d writes", len(versions), len(writes))
	}
	for i, w := range writes {
		if deleted := w.Verb == table.Delete; deleted != (versions[i] == "") {
			t.Errorf("write %d returned version %q", i, versions[i])
		}
	}
	return versions
}

// refused checks that the transaction fails with want.
func (t *tableTest) refused(want error, writes ...table.Write) {
	t.Helper()
	if _, err := t.table.Submit(t.ctx, writes...); !errors.Is(err, want) {
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
	if row.WrittenAt.IsZero() {
		t.Error("the row has no time")
	}
	want := table.Row{Partition: partition, Key: key, Values: v, Version: version, WrittenAt: row.WrittenAt}
	if diff := cmp.Diff(row, want); diff != "" {
		t.Errorf("stored (-), want (+):\n%s", diff)
	}
}

func (t *tableTest) missing(partition, key string) {
	t.Helper()
	if row, err := t.table.Get(t.ctx, partition, key); !errors.Is(err, table.ErrNotFound) {
		t.Errorf("get row %.80q of %.80q: %v, %v, want %v", key, partition, row, err, table.ErrNotFound)
	}
}

// all reads all pages of a query and returns their number.
func (t *tableTest) all(q table.Query) (rows []table.Row, pages int) {
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

func (t *tableTest) keys(q table.Query) (keys []string) {
	t.Helper()
	rows, _ := t.all(q)
	for _, row := range rows {
		keys = append(keys, row.Partition+"/"+row.Key)
	}
	return keys
}

// fill puts n rows into the partition, named by their numbers.
func (t *tableTest) fill(partition string, n int) {
	t.Helper()
	var writes []table.Write
	for i := range n {
		writes = append(writes, insert(partition, fmt.Sprintf("%05d", i), values{"x": fmt.Sprint(i)}))
	}
	for some := range slices.Chunk(writes, table.MaxTransaction) {
		t.submit(some...)
	}
}
