package azure

import (
	"strings"
	"testing"

	"kennel/internal/storetest"
	"kennel/table"
)

func openTables(t testing.TB, o *Options) *Tables {
	t.Helper()
	tables, err := Account{ConnectionString: storetest.Azurite(t).ConnectionString()}.OpenTables(o)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// uniqueTable returns a name like storetest.Name, without the hyphen, which
// table names cannot have.
func uniqueTable() string { return strings.ReplaceAll(storetest.Name(), "-", "") }

func openTable(t testing.TB, tables *Tables, name string) *Table {
	t.Helper()
	table, err := NewTable(tables, name)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTables(t *testing.T) {
	tables := openTables(t, nil)
	newTable := func(t *testing.T) table.Store { return openTable(t, tables, uniqueTable()) }
	storetest.TestTables(t, newTable)
}
