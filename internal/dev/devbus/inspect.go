package devbus

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// This file is how a test, or a curious developer, looks into the broker
// without being a client of it.

// Stats counts what the broker has done since New.
type Stats struct {
	Connections  int64 // accepted, black holes included
	Attached     int64 // links asked for
	Stored       int64 // messages, once for each queue or subscription
	Rejected     int64 // transfers that were not taken in
	Duplicates   int64 // messages dropped by duplicate detection
	Scheduled    int64
	Delivered    int64 // also again
	Completed    int64
	Abandoned    int64
	Deferred     int64
	DeadLettered int64
	Expired      int64 // dropped, not dead-lettered
	Requests     int64 // to $management
	AutoDeleted  int64 // entities nobody used
	Faults       int64 // times that one happened
}

// Stats returns the counts of this moment.
func (b *Broker) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// Counts says how many messages of each state a queue or subscription holds.
type Counts struct {
	Ready       int // to be delivered
	Locked      int // out with a receiver
	Deferred    int
	Scheduled   int
	DeadLetters int // in its dead-letter queue
}

// Counts counts the messages of the queue, subscription or dead-letter queue
// at a path. Of topics, it counts the scheduled ones.
func (b *Broker) Counts(path string) (Counts, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.topics[key(path)]; t != nil {
		return Counts{Scheduled: len(t.scheduled)}, nil
	}
	q := b.queues[key(path)]
	if q == nil {
		return Counts{}, fmt.Errorf("count %q: %w", path, ErrNotFound)
	}
	return q.count(), nil
}

func (q *queue) count() Counts {
	var c Counts
	for _, m := range q.all {
		switch m.state {
		case stateReady:
			c.Ready++
		case stateLocked:
			c.Locked++
		case stateDeferred:
			c.Deferred++
		case stateScheduled:
			c.Scheduled++
		}
	}
	if q.deadLetters != nil {
		c.DeadLetters = len(q.deadLetters.all)
	}
	return c
}

// Entities lists the paths of all queues, topics and subscriptions.
func (b *Broker) Entities() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var paths []string
	for q := range maps.Values(b.queues) {
		if q.owner == nil {
			paths = append(paths, q.path)
		}
	}
	for t := range maps.Values(b.topics) {
		paths = append(paths, t.path)
	}
	slices.Sort(paths)
	return paths
}

// Connections counts the clients that are connected.
func (b *Broker) Connections() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.conns {
		if !c.gone {
			n++
		}
	}
	return n
}

// Message is a message in a queue, as Peek shows it.
type Message struct {
	SequenceNumber int64
	MessageID      any    // as it was sent: a string, uint64, [16]byte or []byte
	SessionID      string // "" also if there is none
	Body           []byte // of the first data section; nil if there is none
	Properties     map[string]any
	Failures       int       // deliveries that did not end well
	Enqueued       time.Time // on the broker's clock
	Locked         bool
	Deferred       bool
	Scheduled      bool
}

// Peek shows up to max messages of the queue, subscription or dead-letter
// queue at a path, in order, whatever their state. Nothing takes note of it:
// it is no use of the entity.
func (b *Broker) Peek(path string, max int) ([]Message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[key(path)]
	if q == nil {
		return nil, fmt.Errorf("peek %q: %w", path, ErrNotFound)
	}
	var out []Message
	for _, m := range q.all[:min(max, len(q.all))] {
		out = append(out, m.show())
	}
	return out, nil
}

func (m *message) show() Message {
	c := m.content
	shown := Message{
		SequenceNumber: m.sequence,
		MessageID:      c.id,
		SessionID:      c.session,
		Properties:     map[string]any{},
		Failures:       int(m.failures),
		Enqueued:       m.enqueued,
		Locked:         m.state == stateLocked,
		Deferred:       m.state == stateDeferred,
		Scheduled:      m.state == stateScheduled,
	}
	if u, ok := c.id.(amqp.UUID); ok {
		shown.MessageID = [16]byte(u)
	}
	// parseMessage has checked both sections.
	if c.app != nil {
		_, value, _ := amqp.DecodeDescriptor(c.app)
		amqp.Pairs(value, func(key string, value []byte) error {
			shown.Properties[key], _, _ = amqp.Decode(value)
			return nil
		})
	}
	amqp.Sections(c.body, func(code uint64, value, _ []byte) error {
		if code == amqp.SectionData && shown.Body == nil {
			shown.Body, _ = amqp.DecodeBinary(value)
			shown.Body = slices.Clone(shown.Body)
		}
		return nil
	})
	return shown
}
