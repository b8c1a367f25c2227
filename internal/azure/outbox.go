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

// Outbox is a [channels.Outbox] for one of the [Queues]. It encodes messages as
// the Functions host expects them.
type Outbox struct {
	queues *Queues
	queue  string
}

// NewOutbox returns the outbox for a queue. It makes no request.
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

// Delete implements [channels.Outbox] with one request. It returns
// [queue.ErrLeaseLost] if the message was received.
func (o *Outbox) Delete(ctx context.Context, receipt string) error {
	id, pop, ok := strings.Cut(receipt, " ")
	if !ok {
		return errors.New("delete message: the receipt was not returned by an outbox")
	}
	return o.queues.Delete(ctx, o.queue, queue.Message{ID: id, Receipt: pop})
}
