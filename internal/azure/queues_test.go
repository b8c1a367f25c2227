package azure

import (
	"context"
	"testing"
	"time"

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

// conformant gives Queues the types of package storetest.
type conformant struct{ *Queues }

func (c conformant) Receive(ctx context.Context, queue string, max int, visibility time.Duration) ([]storetest.Message, error) {
	messages, err := c.Queues.Receive(ctx, queue, max, visibility)
	var converted []storetest.Message
	for _, m := range messages {
		converted = append(converted, storetest.Message(m))
	}
	return converted, err
}

func (c conformant) Update(ctx context.Context, queue string, m storetest.Message, visibility time.Duration) (storetest.Message, error) {
	next, err := c.Queues.Update(ctx, queue, QueueMessage(m), visibility)
	return storetest.Message(next), err
}

func (c conformant) Delete(ctx context.Context, queue string, m storetest.Message) error {
	return c.Queues.Delete(ctx, queue, QueueMessage(m))
}

func TestQueues(t *testing.T) {
	queues := storetest.Queues{QueueStore: conformant{openQueues(t, nil)}, LeaseLost: ErrLeaseLost}
	t.Run("Messages", func(t *testing.T) { storetest.TestQueues(t, queues) })
	t.Run("Leases", func(t *testing.T) { storetest.TestLeases(t, queues) })
}
