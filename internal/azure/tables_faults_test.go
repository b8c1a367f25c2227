package azure

import (
	"testing"

	"kennel/internal/table"
)

// The caller gets the same error for both failures of each kind of write, and
// only the caller retries.
func TestTableWritesThatFail(t *testing.T) {
	insert := func(key string) table.Write {
		return table.Write{Verb: table.Insert, Row: table.Row{Partition: "p", Key: key}}
	}
	remove := func(key string) table.Write {
		return table.Write{Verb: table.Delete, Row: table.Row{Partition: "p", Key: key}, If: table.AnyVersion}
	}
	for _, tt := range []struct {
		name   string
		writes []table.Write
		left   int // number of rows if the write is applied; two exist before
	}{
		{"insert", []table.Write{insert("c")}, 3},
		{"delete", []table.Write{remove("a")}, 1},
		{"transaction of inserts", []table.Write{insert("c"), insert("d")}, 4},
		{"transaction of deletes", []table.Write{remove("a"), remove("b")}, 0},
	} {
		for name, fault := range failures {
			t.Run(tt.name+" "+name, func(t *testing.T) {
				proxy, account := throughProxy(t)
				store := openTable(t, opened(t, account.OpenTables, nil), uniqueTable())
				if _, err := store.Submit(t.Context(), insert("a"), insert("b")); err != nil {
					t.Fatal(err)
				}
				proxy.Passed()
				heal := proxy.Add(fault)
				_, err := store.Submit(t.Context(), tt.writes...)
				checkRefusal(t, err, errOther)
				if got := proxy.Passed(); len(got) != 1 {
					t.Errorf("requests %q, want one", got)
				}
				heal()
				want := 2
				if fault.Lose {
					want = tt.left
				}
				if rows := rowsOf(t, store, "p"); len(rows) != want {
					t.Errorf("%d rows, want %d", len(rows), want)
				}
			})
		}
	}
}
