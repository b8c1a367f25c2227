package azure

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"kennel/channels"
	"kennel/queue"
)

// Outbox puts messages into one of the [Queues], encoded as the Functions host
// expects them, and can take them back. It is a [channels.Outbox].
type Outbox struct {
	queues *Queues
	queue  string
}

// NewOutbox checks the queue's name and makes no request.
func NewOutbox(queues *Queues, name string) (*Outbox, error) {
	if err := queue.CheckName(name); err != nil {
		return nil, fmt.Errorf("new outbox: %w", err)
	}
	return &Outbox{queues, name}, nil
}

// Put implements [channels.Outbox] with one request, or with three if the
// queue has to be created first. Messages are kept for seven days.
func (o *Outbox) Put(ctx context.Context, text string, delay time.Duration) (receipt string, err error) {
	m, err := o.queues.Put(ctx, o.queue, base64.StdEncoding.EncodeToString([]byte(text)), delay)
	if errors.Is(err, queue.ErrRefused) {
		err = fmt.Errorf("%w: %w", channels.ErrRefused, err)
	}
	if err != nil {
		return "", err
	}
	return m.ID + " " + m.Receipt, nil
}

// Delete implements [channels.Outbox] with one request. A message that was
// received is [queue.ErrLeaseLost].
func (o *Outbox) Delete(ctx context.Context, receipt string) error {
	id, pop, ok := strings.Cut(receipt, " ")
	if !ok {
		return errors.New("delete message: the receipt is not one of this outbox")
	}
	return o.queues.Delete(ctx, o.queue, queue.Message{ID: id, Receipt: pop})
}
