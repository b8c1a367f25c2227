package azure

import (
	"testing"

	"kennel/channels"
	"kennel/internal/storetest"
)

func openQueues(t testing.TB, o *Options) *Queues {
	t.Helper()
	queues, err := Account{ConnectionString: storetest.Azurite(t).ConnectionString()}.OpenQueues(o)
	if err != nil {
		t.Fatal(err)
	}
	return queues
}

func openOutbox(t testing.TB, queues *Queues, name string) *Outbox {
	t.Helper()
	outbox, err := NewOutbox(queues, name)
	if err != nil {
		t.Fatal(err)
	}
	return outbox
}

func TestQueues(t *testing.T) {
	queues := openQueues(t, nil)
	t.Run("Messages", func(t *testing.T) { storetest.TestQueues(t, queues) })
	t.Run("Outbox", func(t *testing.T) {
		storetest.TestOutbox(t, queues, func(name string) channels.Outbox { return openOutbox(t, queues, name) })
	})
}

func TestNames(t *testing.T) {
	if outbox, err := NewOutbox(openQueues(t, nil), "No_Queue"); err == nil {
		t.Errorf("opened %+v", outbox)
	}
	for _, name := range []string{"", "ab", "1abc", "a-b-c", "a_bc"} {
		if table, err := NewTable(openTables(t, nil), name); err == nil {
			t.Errorf("opened %+v", table)
		}
	}
}
