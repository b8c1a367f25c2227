package queue

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Outbox puts texts into one queue, encoded as the Functions host expects them,
// and takes them back.
type Outbox struct {
	store OutboxStore
	queue string
}

// OutboxStore is the part of a queue's store that an Outbox needs.
type OutboxStore interface {
	Putter

	// Delete deletes a message; see [Receiver].
	Delete(ctx context.Context, queue string, m Message) error
}

// NewOutbox returns the outbox for a queue. It makes no request.
func NewOutbox(store OutboxStore, queue string) (*Outbox, error) {
	if store == nil {
		return nil, errors.New("new outbox: the store is nil")
	}
	if err := CheckName(queue); err != nil {
		return nil, fmt.Errorf("new outbox: %w", err)
	}
	return &Outbox{store, queue}, nil
}

// Put adds a message that is not received before delay. After an error other
// than ErrRefused or ErrLimit the message may exist.
func (o *Outbox) Put(ctx context.Context, text string, delay time.Duration) (receipt string, err error) {
	m, err := o.store.Put(ctx, o.queue, base64.StdEncoding.EncodeToString([]byte(text)), delay)
	if err != nil {
		return "", err
	}
	return m.ID + " " + m.Receipt, nil
}

// Delete removes a message. It returns ErrLeaseLost if the message was received.
func (o *Outbox) Delete(ctx context.Context, receipt string) error {
	id, pop, ok := strings.Cut(receipt, " ")
	if !ok {
		return errors.New("delete message: the receipt was not returned by an outbox")
	}
	return o.store.Delete(ctx, o.queue, Message{ID: id, Receipt: pop})
}
