package main

import (
	"testing"
	"time"

	"kennel/internal/azure"
	"kennel/internal/faultproxy"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

// openTable opens one of the tables of the tests' Azurite.
func openTable(t testing.TB, tables *azure.Tables, name string) *azure.Table {
	t.Helper()
	store, err := azure.NewTable(tables, name)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// openAzurite opens the tables and queues of the tests' Azurite.
func openAzurite(t testing.TB) (*azure.Tables, *azure.Queues) {
	t.Helper()
	account := azure.Account{ConnectionString: storetest.Azurite(t).ConnectionString()}
	tables, err := account.OpenTables(nil)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := account.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	return tables, queues
}

func openBlobs(t testing.TB) *azure.Blobs {
	t.Helper()
	blobs, err := azure.Account{ConnectionString: storetest.Azurite(t).ConnectionString()}.OpenBlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	return blobs
}

// rows returns the keys of the rows of a partition, or of all for "".
func rows(t *testing.T, store *azure.Table, partition string) (all []table.Row) {
	t.Helper()
	for q := (table.Query{Partition: partition, KeysOnly: true, Top: table.MaxPage}); ; {
		page, err := store.Query(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Rows...)
		if q.After = page.Next; q.After == "" {
			return all
		}
	}
}

// age merges a time that is long ago into a row.
func age(t *testing.T, store *azure.Table, partition, key, column string, by time.Duration) {
	t.Helper()
	_, err := store.Submit(t.Context(), []table.Write{{Verb: table.Merge, If: table.AnyVersion, Row: table.Row{
		Partition: partition, Key: key, Values: map[string]string{column: time.Now().UTC().Add(-by).Format(time.RFC3339Nano)},
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

// newProxy starts a fault proxy before the tests' Azurite.
func newProxy(t testing.TB) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.Start(storetest.Azurite(t).ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}
