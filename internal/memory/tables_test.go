package memory

import (
	"errors"
	"testing"

	"kennel/internal/chance"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

func TestTables(t *testing.T) {
	storetest.TestTables(t, func(t *testing.T) table.Store { return NewTable(nil) })
}

// TestTablesInShortPages checks the contract with short and empty pages.
func TestTablesInShortPages(t *testing.T) {
	random := chance.New(storetest.Seed(t), "pages", 0)
	storetest.TestTables(t, func(t *testing.T) table.Store {
		return NewTable(&TableOptions{Scan: func(top int) int { return 1 + random.Below(2*top) }})
	})
}

func TestTableClone(t *testing.T) {
	store := NewTable(nil)
	write := table.Write{Verb: table.Insert, Row: table.Row{Partition: "p", Key: "a", Values: map[string]string{"x": "1"}}}
	if _, err := store.Submit(t.Context(), write); err != nil {
		t.Fatal(err)
	}
	clone := store.Clone(nil)
	write = table.Write{Verb: table.Delete, Row: table.Row{Partition: "p", Key: "a"}, If: table.AnyVersion}
	if _, err := clone.Submit(t.Context(), write); err != nil {
		t.Fatal(err)
	}
	if got, cloned := store.Rows(""), clone.Rows(""); got != 1 || cloned != 0 {
		t.Errorf("%d rows and %d in the clone, want 1 and 0", got, cloned)
	}
}

func TestTableFaults(t *testing.T) {
	errLost := errors.New("connection reset")
	write := []table.Write{{Verb: table.Insert, Row: table.Row{Partition: "p", Key: "a"}}}
	for _, test := range []struct {
		name  string
		fault func(Call) Fault
		rows  int
	}{
		{"refused", RefuseNth(1, errLost), 0},
		{"reply lost", LoseReplyNth(1, errLost), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := NewTable(&TableOptions{Options: Options{Fault: test.fault}})
			if _, err := store.Submit(t.Context(), write...); !errors.Is(err, errLost) {
				t.Errorf("submit: %v, want %v", err, errLost)
			}
			if got := store.Rows("p"); got != test.rows {
				t.Errorf("%d rows, want %d", got, test.rows)
			}
		})
	}
}
