package azure

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"
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
	receipt, err = o.put(ctx, base64.StdEncoding.EncodeToString([]byte(text)), delay)
	if err != nil {
		return "", fmt.Errorf("put message into queue %.80q: %w", o.queue, err)
	}
	return receipt, nil
}

func (o *Outbox) put(ctx context.Context, body string, delay time.Duration) (receipt string, err error) {
	if err := checkQueue(o.queue); err != nil {
		return "", err
	}
	if err := checkBody(body); err != nil {
		return "", err
	}
	invisible := seconds(delay)
	if delay < 0 || delay > maxVisibility || invisible == seconds(maxVisibility) {
		return "", fmt.Errorf("delay of %v is not within 0 and 7 days, after which the message expires", delay)
	}
	options := &azqueue.EnqueueMessageOptions{VisibilityTimeout: &invisible}
	client := o.queues.client.NewQueueClient(o.queue)
	once := o.queues.once
	answer, err := client.EnqueueMessage(once.context(ctx), body, options)
	err = answered(ctx, err)
	if hasCode(err, queueerror.QueueNotFound) {
		// The refusal is certain, so that putting again is no second try.
		_, err = client.Create(once.context(ctx), nil)
		if err := answered(ctx, err); err != nil && !hasCode(err, queueerror.QueueAlreadyExists) {
			return "", fmt.Errorf("create the queue: %w", err)
		}
		answer, err = client.EnqueueMessage(once.context(ctx), body, options)
		err = answered(ctx, err)
	}
	if err != nil {
		return "", err
	}
	if len(answer.Messages) != 1 {
		return "", fmt.Errorf("the answer is about %d messages", len(answer.Messages))
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
