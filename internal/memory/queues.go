package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrLeaseLost says that the message is no longer the caller's: its time ran
// out and another has it, or it is gone.
var ErrLeaseLost = errors.New("the message is no longer held")

// Azure's limits.
const (
	maxBody       = 64 << 10 // bytes
	maxReceive    = 32       // messages
	maxVisibility = 7 * 24 * time.Hour
	timeToLive    = 7 * 24 * time.Hour
)

// QueueMessage is a message as it was received. Its times are in whole
// seconds, as Azure tells them.
type QueueMessage struct {
	ID                             string
	Receipt                        string // proves that its holder has the message; each update gives a new one
	Body                           string
	DequeueCount                   int64 // how often it was received, this time included
	Inserted, Expires, NextVisible time.Time
}

// Queues are storage queues in memory, safe for concurrent use. They deliver
// at least once; in the order of becoming visible, or in a random one if
// [Options.ShuffleSeed] is set. The police look for requests without a
// deadline.
type Queues struct {
	wire
	random *rand.Rand            // guarded by mu; nil: in order
	queues map[string][]*message // guarded by mu
	last   int64                 // number of the last message or receipt; guarded by mu
}

// message keeps exact times; what callers see is rounded.
type message struct {
	QueueMessage
	number int64 // in the order of putting
}

// NewQueues returns an account without queues.
func NewQueues(o *Options) *Queues {
	q := &Queues{wire: newWire(o), queues: make(map[string][]*message)}
	if o != nil && o.ShuffleSeed != 0 {
		q.random = rand.New(rand.NewPCG(o.ShuffleSeed, 0))
	}
	return q
}

// Receive takes up to max messages, at most 32, which nobody else sees for the
// visibility. A queue that does not exist is empty.
func (q *Queues) Receive(ctx context.Context, queue string, max int, visibility time.Duration) ([]QueueMessage, error) {
	err := checkQueue(queue)
	switch {
	case err != nil:
	case max < 1 || max > maxReceive:
		err = fmt.Errorf("%d messages at once are not in 1 to %d", max, maxReceive)
	case visibility <= 0 || visibility > maxVisibility:
		err = fmt.Errorf("visibility of %v is not above 0 and within 7 days", visibility)
	}
	var messages []QueueMessage
	if err == nil {
		messages, err = send(ctx, &q.wire, "Receive", queue, func() ([]QueueMessage, error) {
			return q.take(queue, max, visibility), nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("receive from queue %.80q: %w", queue, err)
	}
	return messages, nil
}

func (q *Queues) take(queue string, max int, visibility time.Duration) []QueueMessage {
	now := time.Now()
	var visible []*message
	for _, m := range q.live(queue, now) {
		if !m.NextVisible.After(now) {
			visible = append(visible, m)
		}
	}
	slices.SortFunc(visible, func(a, b *message) int {
		return cmp.Or(a.NextVisible.Compare(b.NextVisible), cmp.Compare(a.number, b.number))
	})
	if q.random != nil {
		q.random.Shuffle(len(visible), func(i, j int) { visible[i], visible[j] = visible[j], visible[i] })
	}
	var taken []QueueMessage
	for _, m := range visible[:min(max, len(visible))] {
		m.DequeueCount++
		m.Receipt = q.receipt()
		m.NextVisible = now.Add(wholeSeconds(visibility))
		taken = append(taken, m.seen())
	}
	return taken
}

// Update stores m.Body and makes the message visible again after visibility, 0
// for at once. It returns the message with its new receipt; the old one is
// worthless. A message that is no longer held is ErrLeaseLost.
func (q *Queues) Update(ctx context.Context, queue string, m QueueMessage, visibility time.Duration) (QueueMessage, error) {
	err := cmp.Or(checkQueue(queue), checkBody(m.Body))
	if err == nil && (visibility < 0 || visibility > maxVisibility) {
		err = fmt.Errorf("visibility of %v is not within 0 and 7 days", visibility)
	}
	var next QueueMessage
	if err == nil {
		next, err = send(ctx, &q.wire, "Update", queue, func() (QueueMessage, error) {
			held, err := q.held(queue, m)
			if err != nil {
				return QueueMessage{}, err
			}
			held.Body = m.Body
			held.Receipt = q.receipt()
			held.NextVisible = time.Now().Add(wholeSeconds(visibility))
			return held.seen(), nil
		})
	}
	if err != nil {
		return QueueMessage{}, fmt.Errorf("update message %.80q of queue %.80q: %w", m.ID, queue, err)
	}
	return next, nil
}

// Delete removes a message for good. A message that is no longer held is
// ErrLeaseLost.
func (q *Queues) Delete(ctx context.Context, queue string, m QueueMessage) error {
	err := checkQueue(queue)
	if err == nil {
		_, err = send(ctx, &q.wire, "Delete", queue, func() (struct{}, error) {
			held, err := q.held(queue, m)
			if err == nil {
				q.queues[queue] = slices.DeleteFunc(q.queues[queue], func(m *message) bool { return m == held })
			}
			return struct{}{}, err
		})
	}
	if err != nil {
		return fmt.Errorf("delete message %.80q of queue %.80q: %w", m.ID, queue, err)
	}
	return nil
}

// Put adds a message, which is seen after delay and kept for seven days. It
// creates a missing queue.
func (q *Queues) Put(ctx context.Context, queue, body string, delay time.Duration) error {
	err := cmp.Or(checkQueue(queue), checkBody(body))
	if err == nil && (delay < 0 || wholeSeconds(delay) >= timeToLive) {
		err = fmt.Errorf("delay of %v is not within 0 and 7 days, after which the message expires", delay)
	}
	if err == nil {
		_, err = send(ctx, &q.wire, "Put", queue, func() (struct{}, error) {
			q.last++
			now := time.Now()
			m := &message{number: q.last}
			m.ID = fmt.Sprintf("00000000-0000-4000-8000-%012x", q.last)
			m.Body = body
			m.Inserted, m.Expires, m.NextVisible = now, now.Add(timeToLive), now.Add(wholeSeconds(delay))
			q.queues[queue] = append(q.queues[queue], m)
			return struct{}{}, nil
		})
	}
	if err != nil {
		return fmt.Errorf("put message into queue %.80q: %w", queue, err)
	}
	return nil
}

// All returns what a queue holds, in the order of putting, invisible messages
// included and receipts left out. It is no request and meets no fate.
func (q *Queues) All(queue string) []QueueMessage {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []QueueMessage
	for _, m := range q.live(queue, time.Now()) {
		seen := m.seen()
		seen.Receipt = ""
		all = append(all, seen)
	}
	return all
}

// live drops what has expired and returns the rest. Its caller holds mu.
func (q *Queues) live(queue string, now time.Time) []*message {
	messages := q.queues[queue]
	if slices.ContainsFunc(messages, func(m *message) bool { return !m.Expires.After(now) }) {
		messages = slices.DeleteFunc(messages, func(m *message) bool { return !m.Expires.After(now) })
		q.queues[queue] = messages
	}
	return messages
}

// held finds the message whose newest receipt the caller has. It is the
// caller's even after its time, as long as nobody else received it.
func (q *Queues) held(queue string, m QueueMessage) (*message, error) {
	for _, candidate := range q.live(queue, time.Now()) {
		if candidate.ID == m.ID && candidate.Receipt == m.Receipt && m.Receipt != "" {
			return candidate, nil
		}
	}
	return nil, ErrLeaseLost
}

func (q *Queues) receipt() string {
	q.last++
	return fmt.Sprintf("receipt-%d", q.last)
}

func (m *message) seen() QueueMessage {
	seen := m.QueueMessage
	for _, t := range []*time.Time{&seen.Inserted, &seen.Expires, &seen.NextVisible} {
		*t = t.UTC().Truncate(time.Second)
	}
	return seen
}

func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

var queueName = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9])*$`)

func checkQueue(name string) error {
	if len(name) < 3 || len(name) > 63 || !queueName.MatchString(name) {
		return errors.New("the name is not 3 to 63 lower-case letters, digits and single hyphens between them")
	}
	return nil
}

// checkBody refuses what XML, in which messages travel, cannot hold.
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
