package apptest

import (
	"strings"
	"testing"
	"time"

	"kennel/internal/azure"
	"kennel/internal/faultproxy"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

// OpenTable opens one of the tables of the tests' storage.
func OpenTable(t testing.TB, tables *azure.Tables, name string) *azure.Table {
	t.Helper()
	store, err := azure.NewTable(tables, name)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// OpenAzurite opens the tables and queues of the tests' storage.
func OpenStorage(t testing.TB) (*azure.Tables, *azure.Queues) {
	t.Helper()
	account := azure.Account{ConnectionString: storetest.Storage(t).ConnectionString()}
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

func OpenBlobs(t testing.TB) *azure.Blobs {
	t.Helper()
	blobs, err := azure.Account{ConnectionString: storetest.Storage(t).ConnectionString()}.OpenBlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	return blobs
}

// Rows returns the keys of the rows of a partition, or of all for "".
func Rows(t *testing.T, store *azure.Table, partition string) (all []table.Row) {
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

// Age merges a time that is long ago into a row.
func Age(t *testing.T, store *azure.Table, partition, key, column string, by time.Duration) {
	t.Helper()
	_, err := store.Submit(t.Context(), table.Write{Verb: table.Merge, If: table.AnyVersion, Row: table.Row{
		Partition: partition, Key: key, Values: map[string]string{column: time.Now().UTC().Add(-by).Format(time.RFC3339Nano)},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// NewProxy starts a fault proxy before the tests' storage.
func NewProxy(t testing.TB) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.Start(storetest.Storage(t).ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}

// StorageKey returns the key of the storage that the tests share.
func StorageKey(t testing.TB) string {
	t.Helper()
	_, rest, _ := strings.Cut(storetest.Storage(t).ConnectionString(), ";AccountKey=")
	key, _, found := strings.Cut(rest, ";")
	if !found {
		t.Fatal("the connection string has no key")
	}
	return key
}
