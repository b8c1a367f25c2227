package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"
)

// ErrLeaseLost says that the message is no longer the caller's: its time ran
// out and another has it, or it is gone, be it through an earlier try of the
// same request.
var ErrLeaseLost = errors.New("the message is no longer held")

// Azure's limits, some of which Azurite does not know.
const (
	maxBody       = 64 << 10 // bytes
	maxReceive    = 32       // messages
	maxVisibility = 7 * 24 * time.Hour
)

// QueueMessage is a message as it was received.
type QueueMessage struct {
	ID                             string
	Receipt                        string // proves that its holder has the message; each update gives a new one
	Body                           string // as stored: encodings are the sender's and the reader's affair
	DequeueCount                   int64  // how often it was received, this time included
	Inserted, Expires, NextVisible time.Time
}

// Queues is a client for the account's queues. It is safe for concurrent use.
// Messages are delivered at least once and in no particular order. Durations
// are rounded up to whole seconds.
type Queues struct {
	client *azqueue.ServiceClient
	once   once
}

// Receive takes up to max messages, at most 32, which nobody else sees for the
// visibility: one request. A queue that does not exist is empty.
//
// When the answer gets lost, the messages it held stay invisible until their
// time is over.
func (q *Queues) Receive(ctx context.Context, queue string, max int, visibility time.Duration) ([]QueueMessage, error) {
	messages, err := q.receive(ctx, queue, max, visibility)
	if err != nil {
		return nil, fmt.Errorf("receive from queue %.80q: %w", queue, err)
	}
	return messages, nil
}

func (q *Queues) receive(ctx context.Context, queue string, max int, visibility time.Duration) ([]QueueMessage, error) {
	if err := checkQueue(queue); err != nil {
		return nil, err
	}
	if max < 1 || max > maxReceive {
		return nil, fmt.Errorf("%d messages at once are not in 1 to %d", max, maxReceive)
	}
	if visibility <= 0 || visibility > maxVisibility {
		return nil, fmt.Errorf("visibility of %v is not above 0 and within 7 days", visibility)
	}
	count, invisible := int32(max), seconds(visibility)
	options := &azqueue.DequeueMessagesOptions{NumberOfMessages: &count, VisibilityTimeout: &invisible}
	answer, err := q.client.NewQueueClient(queue).DequeueMessages(q.once.context(ctx), options)
	if err := answered(ctx, err); err != nil {
		if hasCode(err, queueerror.QueueNotFound) {
			return nil, nil
		}
		return nil, err
	}
	var messages []QueueMessage
	for _, m := range answer.Messages {
		messages = append(messages, QueueMessage{
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

// Update stores m.Body and makes the message visible again after visibility, 0
// for at once: one request. It returns the message with its new receipt; the
// old one is worthless. A message that is no longer held is ErrLeaseLost.
func (q *Queues) Update(ctx context.Context, queue string, m QueueMessage, visibility time.Duration) (QueueMessage, error) {
	next, err := q.update(ctx, queue, m, visibility)
	if err != nil {
		return QueueMessage{}, fmt.Errorf("update message %.80q of queue %.80q: %w", m.ID, queue, err)
	}
	return next, nil
}

func (q *Queues) update(ctx context.Context, queue string, m QueueMessage, visibility time.Duration) (QueueMessage, error) {
	if err := checkQueue(queue); err != nil {
		return QueueMessage{}, err
	}
	if err := checkBody(m.Body); err != nil {
		return QueueMessage{}, err
	}
	if visibility < 0 || visibility > maxVisibility {
		return QueueMessage{}, fmt.Errorf("visibility of %v is not within 0 and 7 days", visibility)
	}
	invisible := seconds(visibility)
	answer, err := q.client.NewQueueClient(queue).UpdateMessage(q.once.context(ctx), m.ID, m.Receipt, m.Body,
		&azqueue.UpdateMessageOptions{VisibilityTimeout: &invisible})
	if err := answered(ctx, err); err != nil {
		return QueueMessage{}, lease(err)
	}
	m.Receipt = value(answer.PopReceipt)
	m.NextVisible = value(answer.TimeNextVisible)
	return m, nil
}

// Delete removes a message for good: one request. A message that is no longer
// held is ErrLeaseLost, also when an earlier try of this very request, whose
// answer got lost, has deleted it.
func (q *Queues) Delete(ctx context.Context, queue string, m QueueMessage) error {
	err := checkQueue(queue)
	if err == nil {
		_, err = q.client.NewQueueClient(queue).DeleteMessage(q.once.context(ctx), m.ID, m.Receipt, nil)
		err = lease(answered(ctx, err))
	}
	if err != nil {
		return fmt.Errorf("delete message %.80q of queue %.80q: %w", m.ID, queue, err)
	}
	return nil
}

// Put adds a message, which is seen after delay and kept for seven days: one
// request, or three if the queue has to be created first. After any error the
// message may be there all the same.
func (q *Queues) Put(ctx context.Context, queue, body string, delay time.Duration) error {
	if _, err := q.put(ctx, queue, body, delay); err != nil {
		return fmt.Errorf("put message into queue %.80q: %w", queue, err)
	}
	return nil
}

func (q *Queues) put(ctx context.Context, queue, body string, delay time.Duration) (answer azqueue.EnqueueMessagesResponse, err error) {
	if err := checkQueue(queue); err != nil {
		return answer, err
	}
	if err := checkBody(body); err != nil {
		return answer, err
	}
	invisible := seconds(delay)
	if delay < 0 || delay > maxVisibility || invisible == seconds(maxVisibility) {
		return answer, fmt.Errorf("delay of %v is not within 0 and 7 days, after which the message expires", delay)
	}
	options := &azqueue.EnqueueMessageOptions{VisibilityTimeout: &invisible}
	client := q.client.NewQueueClient(queue)
	answer, err = client.EnqueueMessage(q.once.context(ctx), body, options)
	err = answered(ctx, err)
	if !hasCode(err, queueerror.QueueNotFound) {
		return answer, err
	}
	// The refusal is certain, so that putting again is no second try.
	_, err = client.Create(q.once.context(ctx), nil)
	if err := answered(ctx, err); err != nil && !hasCode(err, queueerror.QueueAlreadyExists) {
		return answer, fmt.Errorf("create the queue: %w", err)
	}
	answer, err = client.EnqueueMessage(q.once.context(ctx), body, options)
	return answer, answered(ctx, err)
}

// lease tells the refusals that mean ErrLeaseLost: 404 for a message that is
// gone, 400 for a receipt that is not the newest.
func lease(err error) error {
	if hasStatus(err, http.StatusNotFound) || hasCode(err, queueerror.PopReceiptMismatch) {
		return ErrLeaseLost
	}
	return err
}

var queueName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9](-?[a-z0-9])*$`)
})

func checkQueue(name string) error {
	if len(name) < 3 || len(name) > 63 || !queueName().MatchString(name) {
		return errors.New("the name is not 3 to 63 lower-case letters, digits and single hyphens between them")
	}
	return nil
}

// checkBody refuses what Azure refuses, and what the SDK would silently change
// because XML cannot hold it.
func checkBody(body string) error {
	if len(body) > maxBody {
		return fmt.Errorf("body of %d bytes is longer than %d", len(body), maxBody)
	}
	if !utf8.ValidString(body) || strings.ContainsFunc(body, notXML) {
		return errors.New("the body holds characters that cannot be stored; encode it, as base64 for example")
	}
	return nil
}

func notXML(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
}

func seconds(d time.Duration) int32 {
	return int32((d + time.Second - 1) / time.Second)
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
