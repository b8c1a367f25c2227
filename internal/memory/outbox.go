package memory

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Outbox puts messages into one of the [Queues], encoded as the Functions host
// expects them. It is a [channels.Outbox].
type Outbox struct {
	queues *Queues
	queue  string
}

// NewOutbox makes no request.
func NewOutbox(queues *Queues, queue string) *Outbox { return &Outbox{queues, queue} }

// Put implements [channels.Outbox].
func (o *Outbox) Put(ctx context.Context, text string, delay time.Duration) (receipt string, err error) {
	body := base64.StdEncoding.EncodeToString([]byte(text))
	err = cmp.Or(checkQueue(o.queue), checkBody(body))
	if err == nil && (delay < 0 || wholeSeconds(delay) >= timeToLive) {
		err = fmt.Errorf("delay of %v is not within 0 and 7 days, after which the message expires", delay)
	}
	if err == nil {
		receipt, err = send(ctx, &o.queues.wire, "Put", o.queue, func() (string, error) {
			return o.add(body, delay), nil
		})
	}
	if err != nil {
		return "", fmt.Errorf("put message into queue %.80q: %w", o.queue, err)
	}
	return receipt, nil
}

// add puts a message as [Queues.Put] does, but with a receipt.
func (o *Outbox) add(body string, delay time.Duration) (receipt string) {
	q := o.queues
	q.last++
	now := time.Now()
	m := &message{number: q.last}
	m.ID = fmt.Sprintf("00000000-0000-4000-8000-%012x", q.last)
	m.Body = body
	m.Inserted, m.Expires, m.NextVisible = now, now.Add(timeToLive), now.Add(wholeSeconds(delay))
	m.Receipt = q.receipt()
	q.queues[o.queue] = append(q.queues[o.queue], m)
	return m.ID + " " + m.Receipt
}

// Delete implements [channels.Outbox]. A message that somebody has received
// meanwhile is ErrLeaseLost.
func (o *Outbox) Delete(ctx context.Context, receipt string) error {
	id, pop, ok := strings.Cut(receipt, " ")
	if !ok {
		return errors.New("delete message: the receipt is not one of this outbox")
	}
	return o.queues.Delete(ctx, o.queue, QueueMessage{ID: id, Receipt: pop})
}
