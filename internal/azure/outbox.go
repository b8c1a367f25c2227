package azure

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Outbox puts messages into one of the [Queues], encoded as the Functions host
// expects them, and can take them back. It is a [channels.Outbox].
type Outbox struct {
	queues *Queues
	queue  string
}

// NewOutbox makes no request.
func NewOutbox(queues *Queues, queue string) *Outbox { return &Outbox{queues, queue} }

// Put implements [channels.Outbox] with one request, or with three if the
// queue has to be created first. Messages are kept for seven days.
func (o *Outbox) Put(ctx context.Context, text string, delay time.Duration) (receipt string, err error) {
	answer, err := o.queues.put(ctx, o.queue, base64.StdEncoding.EncodeToString([]byte(text)), delay)
	if err == nil && len(answer.Messages) != 1 {
		err = fmt.Errorf("the answer is about %d messages", len(answer.Messages))
	}
	if err != nil {
		return "", fmt.Errorf("put message into queue %.80q: %w", o.queue, declined(err))
	}
	m := answer.Messages[0]
	return value(m.MessageID) + " " + value(m.PopReceipt), nil
}

// Delete implements [channels.Outbox] with one request. A message that
// somebody has received meanwhile is ErrLeaseLost.
func (o *Outbox) Delete(ctx context.Context, receipt string) error {
	id, pop, ok := strings.Cut(receipt, " ")
	if !ok {
		return errors.New("delete message: the receipt is not one of this outbox")
	}
	return o.queues.Delete(ctx, o.queue, QueueMessage{ID: id, Receipt: pop})
}
