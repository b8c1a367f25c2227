package storetest

import (
	"fmt"
	"time"

	"kennel/internal/table"
)

// Upsert needs no row and no condition, alone and in a transaction.
func upsert(t *tableTest) {
	put := func(key string, v values) table.Write { return change(table.Upsert, "p", key, v, "") }
	seen := make(map[string]bool)
	for i, v := range []values{{"x": "1", "y": "2"}, {"y": "3"}, {"y": "3"}, nil} {
		alone := t.submit(put("a", v))[0]
		t.holds("p", "a", merged(v), alone)
		other := fmt.Sprint("b", i)
		together := t.submit(insert("p", other, nil), put("a", v), put("c", v))
		t.holds("p", "a", merged(v), together[1])
		t.holds("p", "c", merged(v), together[2])
		if seen[alone] || seen[together[1]] || alone == together[1] {
			t.Errorf("a version was used twice: %q, %q", alone, together[1])
		}
		seen[alone], seen[together[1]] = true, true
		t.refused(table.ErrExists, put("a", values{"x": "lost"}), insert("p", other, nil))
		t.holds("p", "a", merged(v), together[1])
		t.submit(remove("p", "c", together[2]))
		t.missing("p", "c")
	}
}

// merged returns the columns of a row with these values.
func merged(v values) values {
	if v == nil {
		return values{}
	}
	return v
}

// Times are the store's: those of a later write are not earlier, and a row is
// not younger than the answer by more than the resolution of its time.
func tableTimes(t *tableTest) {
	var before time.Time
	for i, verb := range []table.Verb{table.Insert, table.Merge, table.Replace, table.Upsert} {
		on := table.AnyVersion
		if verb == table.Insert || verb == table.Upsert {
			on = ""
		}
		t.submit(change(verb, "p", "a", values{"i": fmt.Sprint(i)}, on))
		row, err := t.table.Get(t.ctx, "p", "a")
		if err != nil || row.WrittenAt.IsZero() || row.WrittenAt.Before(before) || row.WrittenAt.Location() != time.UTC {
			t.Fatalf("after verb %d the row was written at %v, before it at %v (%v)", verb, row.WrittenAt, before, err)
		}
		before = row.WrittenAt
		page, err := t.table.Query(t.ctx, table.Query{Partition: "p", Top: 1})
		if err != nil || len(page.Rows) != 1 || !page.Rows[0].WrittenAt.Equal(row.WrittenAt) {
			t.Fatalf("query: %v, %v, want a row written at %v", page, err, row.WrittenAt)
		}
		if age := page.ReadAt.Sub(row.WrittenAt); age < -2*time.Second || age > time.Minute {
			t.Errorf("written at %v and read at %v", row.WrittenAt, page.ReadAt)
		}
	}
	page, err := t.table.Query(t.ctx, table.Query{Partition: "p", KeysOnly: true, Top: 1})
	if err != nil || page.ReadAt.IsZero() || !page.Rows[0].WrittenAt.IsZero() {
		t.Errorf("query for keys: %v, %v, want no time of the row", page, err)
	}
	t.submit(change(table.Insert, "q", "b", nil, ""), change(table.Upsert, "q", "c", nil, ""))
	rows, _ := t.all(table.Query{Partition: "q", Top: 10})
	if len(rows) != 2 || !rows[0].WrittenAt.Equal(rows[1].WrittenAt) && rows[0].WrittenAt.Sub(rows[1].WrittenAt).Abs() > time.Second {
		t.Errorf("rows of a transaction: %v", rows)
	}
}
