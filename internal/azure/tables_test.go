package azure

import (
	"strings"
	"testing"

	"kennel/channels"
	"kennel/internal/storetest"
)

func openTables(t testing.TB, o *Options) *Tables {
	t.Helper()
	tables, err := Account{ConnectionString: storetest.Azurite(t).ConnectionString()}.OpenTables(o)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// tableName is as unique as storetest.Name, without the hyphen that tables
// cannot have.
func tableName() string { return strings.ReplaceAll(storetest.Name(), "-", "") }

func TestTables(t *testing.T) {
	tables := openTables(t, nil)
	newTable := func(t *testing.T) channels.Table { return NewTable(tables, tableName()) }
	storetest.TestTables(t, newTable)
	storetest.TestTableLimits(t, newTable)
}

func TestOutbox(t *testing.T) {
	queues := openQueues(t, nil)
	storetest.TestOutbox(t, storetest.Queues{QueueStore: conformant{queues}, LeaseLost: ErrLeaseLost},
		func(queue string) channels.Outbox { return NewOutbox(queues, queue) })
}
