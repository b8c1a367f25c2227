package memory

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"kennel/queue"
)

// Outbox puts messages into one of the [Queues], encoded as the Functions host
// expects them. It is a [channels.Outbox].
type Outbox struct {
	queues *Queues
	queue  string
}

// NewOutbox returns an outbox. It sends no request.
func NewOutbox(queues *Queues, name string) *Outbox { return &Outbox{queues, name} }

// Put implements [channels.Outbox].
func (o *Outbox) Put(ctx context.Context, text string, delay time.Duration) (receipt string, err error) {
	m, err := o.queues.Put(ctx, o.queue, base64.StdEncoding.EncodeToString([]byte(text)), delay)
	if err != nil {
		return "", err
	}
	return m.ID + " " + m.Receipt, nil
}

// Delete implements [channels.Outbox]. It returns [queue.ErrLeaseLost] if the
// message was received.
func (o *Outbox) Delete(ctx context.Context, receipt string) error {
	id, pop, ok := strings.Cut(receipt, " ")
	if !ok {
		return errors.New("delete message: the receipt is not from this outbox")
	}
	return o.queues.Delete(ctx, o.queue, queue.Message{ID: id, Receipt: pop})
}
