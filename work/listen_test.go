package work_test

import (
	"context"
	"errors"
	"testing"

	"kennel/queue"
	"kennel/work"
)

// listen returns a listener on all queues of batches, as a worker has it.
func listen(t testing.TB, b *work.Batches, queues queue.Store, o *queue.ListenerOptions) *queue.Listener[work.Message] {
	t.Helper()
	handle := func(ctx context.Context, d queue.Delivery[work.Message]) error {
		err := b.Process(ctx, d.Queue, d.Body)
		if errors.Is(err, work.ErrHeld) {
			return nil
		}
		return err
	}
	l, err := queue.NewListener(queues, queueNames(maxPartitions), texts{batches: b}, handle, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// texts is the codec of the messages of batches, which Process reads. They are
// returned as they are.
type texts struct {
	queue.Packed
	batches *work.Batches
}

// Decode implements [queue.Codec].
func (c texts) Decode(_ context.Context, m queue.Message) (queue.Content[work.Message], error) {
	e, err := queue.Parse(m.Body)
	if err != nil {
		return queue.Content[work.Message]{}, err
	}
	return queue.Content[work.Message]{
		Body: work.Message{Text: m.Body, Redelivered: m.DequeueCount > 1, Share: 1. / 32}, ID: e.ID,
		Done: func(ctx context.Context) error { return c.batches.Forget(ctx, m.Body) },
	}, nil
}
