package azure

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"kennel/internal/names"
	"kennel/queue"
)

// Queues is a client for the account's queues: a [queue.Receiver],
// [queue.Putter], [queue.Counter], [queue.Peeker] and [queue.Lister]. It is safe
// for concurrent use. Each method makes one request, but Put makes three if the
// queue has to be created first, and List one for each 5,000 queues.
type Queues struct {
	client  *azqueue.ServiceClient
	once    once
	prefix  string
	endless func(queue string) bool // nil: none
}

// queue returns the client of a queue.
func (q *Queues) queue(name string) *azqueue.QueueClient {
	return q.client.NewQueueClient(names.WithPrefix(q.prefix, name))
}

// isAbsent reports whether err is that there is no such queue. No queue has a name
// that is too long with the prefix.
func (q *Queues) isAbsent(name string, err error) bool {
	return hasCode(err, queueerror.QueueNotFound) || hasStatus(err, http.StatusBadRequest) && len(names.WithPrefix(q.prefix, name)) > maxQueueName
}

// maxQueueName is Azure's limit for the name of a queue.
const maxQueueName = 63

// Receive implements [queue.Receiver].
func (q *Queues) Receive(ctx context.Context, name string, max int, visibility time.Duration) ([]queue.Message, error) {
	messages, err := q.receive(ctx, name, max, visibility)
	if err != nil {
		return nil, fmt.Errorf("receive from queue %.80q: %w", name, err)
	}
	return messages, nil
}

func (q *Queues) receive(ctx context.Context, name string, max int, visibility time.Duration) ([]queue.Message, error) {
	if err := queue.CheckReceive(name, max, visibility); err != nil {
		return nil, err
	}
	count, invisible := int32(max), seconds(visibility)
	options := &azqueue.DequeueMessagesOptions{NumberOfMessages: &count, VisibilityTimeout: &invisible}
	answer, err := q.queue(name).DequeueMessages(q.once.context(ctx), options)
	if err := answered(ctx, err); err != nil {
		if q.isAbsent(name, err) {
			return nil, nil
		}
		return nil, declined(err)
	}
	var messages []queue.Message
	for _, m := range answer.Messages {
		messages = append(messages, queue.Message{
			ID:           value(m.MessageID),
			Receipt:      value(m.PopReceipt),
			Body:         value(m.MessageText),
			DequeueCount: value(m.DequeueCount),
			Inserted:     value(m.InsertionTime),
			Expires:      value(m.ExpirationTime),
			NextVisible:  value(m.TimeNextVisible),
		})
	}
	return messages, nil
}

// Update implements [queue.Receiver].
func (q *Queues) Update(ctx context.Context, name string, m queue.Message, visibility time.Duration) (queue.Message, error) {
	invisible := seconds(visibility)
	err := queue.CheckUpdate(name, m.Body, visibility)
	if err == nil {
		var answer azqueue.UpdateMessageResponse
		answer, err = q.queue(name).UpdateMessage(q.once.context(ctx), m.ID, m.Receipt, m.Body,
			&azqueue.UpdateMessageOptions{VisibilityTimeout: &invisible})
		err = lease(answered(ctx, err))
		m.Receipt, m.NextVisible = value(answer.PopReceipt), value(answer.TimeNextVisible)
	}
	if err != nil {
		return queue.Message{}, fmt.Errorf("update message %.80q of queue %.80q: %w", m.ID, name, err)
	}
	return m, nil
}

// Delete implements [queue.Receiver].
func (q *Queues) Delete(ctx context.Context, name string, m queue.Message) error {
	err := queue.CheckName(name)
	if err == nil {
		_, err = q.queue(name).DeleteMessage(q.once.context(ctx), m.ID, m.Receipt, nil)
		err = lease(answered(ctx, err))
	}
	if err != nil {
		return fmt.Errorf("delete message %.80q of queue %.80q: %w", m.ID, name, err)
	}
	return nil
}

// Put implements [queue.Putter].
func (q *Queues) Put(ctx context.Context, name, body string, delay time.Duration) (queue.Message, error) {
	err := queue.CheckPut(name, body, delay)
	var answer azqueue.EnqueueMessagesResponse
	if err == nil {
		answer, err = q.put(ctx, name, body, delay)
	}
	if err == nil && len(answer.Messages) != 1 {
		err = fmt.Errorf("the answer holds %d messages, want 1", len(answer.Messages))
	}
	if err != nil {
		return queue.Message{}, fmt.Errorf("put message into queue %.80q: %w", name, declined(err))
	}
	m := answer.Messages[0]
	return queue.Message{
		ID:          value(m.MessageID),
		Receipt:     value(m.PopReceipt),
		Body:        body,
		Inserted:    value(m.InsertionTime),
		Expires:     value(m.ExpirationTime),
		NextVisible: value(m.TimeNextVisible),
	}, nil
}

func (q *Queues) put(ctx context.Context, name, body string, delay time.Duration) (azqueue.EnqueueMessagesResponse, error) {
	invisible := seconds(delay)
	options := &azqueue.EnqueueMessageOptions{VisibilityTimeout: &invisible}
	if q.endless != nil && q.endless(name) {
		options.TimeToLive = new(int32(-1))
	}
	client := q.queue(name)
	answer, err := client.EnqueueMessage(q.once.context(ctx), body, options)
	err = answered(ctx, err)
	if !hasCode(err, queueerror.QueueNotFound) {
		return answer, err
	}
	// The first put had no effect, so the put below is not a retry.
	_, err = client.Create(q.once.context(ctx), nil)
	if err := answered(ctx, err); err != nil && !hasCode(err, queueerror.QueueAlreadyExists) {
		return answer, fmt.Errorf("create the queue: %w", err)
	}
	answer, err = client.EnqueueMessage(q.once.context(ctx), body, options)
	return answer, answered(ctx, err)
}

// Count implements [queue.Counter].
func (q *Queues) Count(ctx context.Context, name string) (int64, error) {
	err := queue.CheckName(name)
	var answer azqueue.GetQueuePropertiesResponse
	if err == nil {
		answer, err = q.queue(name).GetProperties(q.once.context(ctx), nil)
		if err = answered(ctx, err); q.isAbsent(name, err) {
			return 0, nil
		}
	}
	if err != nil {
		return 0, fmt.Errorf("count messages of queue %.80q: %w", name, declined(err))
	}
	return int64(value(answer.ApproximateMessagesCount)), nil
}

// List implements [queue.Lister]. It makes a request for each page.
func (q *Queues) List(ctx context.Context, prefix string) ([]string, error) {
	var all []string
	stored := names.WithPrefix(q.prefix, prefix)
	for pages := q.client.NewListQueuesPager(&azqueue.ListQueuesOptions{Prefix: &stored}); pages.More(); {
		page, err := pages.NextPage(q.once.context(ctx))
		if err := answered(ctx, err); err != nil {
			return nil, fmt.Errorf("list queues with prefix %.80q: %w", prefix, declined(err))
		}
		for _, item := range page.Queues {
			if name, ok := names.WithoutPrefix(q.prefix, value(item.Name)); ok {
				all = append(all, name)
			}
		}
	}
	return all, nil
}

// Clear deletes all messages of a queue, which need not exist.
func (q *Queues) Clear(ctx context.Context, name string) error {
	err := queue.CheckName(name)
	if err == nil {
		_, err = q.queue(name).ClearMessages(q.once.context(ctx), nil)
		if err = answered(ctx, err); q.isAbsent(name, err) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("clear queue %.80q: %w", name, declined(err))
	}
	return nil
}

// Peek implements [queue.Peeker].
func (q *Queues) Peek(ctx context.Context, name string, max int) ([]queue.Message, error) {
	messages, err := q.peek(ctx, name, max)
	if err != nil {
		return nil, fmt.Errorf("peek at queue %.80q: %w", name, err)
	}
	return messages, nil
}

func (q *Queues) peek(ctx context.Context, name string, max int) ([]queue.Message, error) {
	if err := queue.CheckPeek(name, max); err != nil {
		return nil, err
	}
	count := int32(max)
	answer, err := q.queue(name).PeekMessages(q.once.context(ctx), &azqueue.PeekMessagesOptions{NumberOfMessages: &count})
	if err := answered(ctx, err); err != nil {
		if q.isAbsent(name, err) {
			return nil, nil
		}
		return nil, declined(err)
	}
	var messages []queue.Message
	for _, m := range answer.Messages {
		messages = append(messages, queue.Message{
			ID:           value(m.MessageID),
			Body:         value(m.MessageText),
			DequeueCount: value(m.DequeueCount),
			Inserted:     value(m.InsertionTime),
			Expires:      value(m.ExpirationTime),
		})
	}
	return messages, nil
}

// lease returns ErrLeaseLost for the answers 404 (a deleted message) and 400
// PopReceiptMismatch (a receipt that is not the newest).
func lease(err error) error {
	if hasStatus(err, http.StatusNotFound) || hasCode(err, queueerror.PopReceiptMismatch) {
		return queue.ErrLeaseLost
	}
	return declined(err)
}

func seconds(d time.Duration) int32 { return int32(queue.WholeSeconds(d) / time.Second) }

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
