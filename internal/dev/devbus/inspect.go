package devbus

import (
	"fmt"
	"maps"
	"slices"
)

// This file lets tests and developers inspect the broker without a client.

// Stats counts the events in the broker since New.
type Stats struct {
	Connections int64 // accepted, including those under BlackHole
	Attached    int64 // links requested
	Stored      int64 // messages, once for each queue or subscription
	Duplicates  int64 // messages dropped by duplicate detection
	Requests    int64 // to $management
	AutoDeleted int64 // idle entities
	Faults      int64 // how often faults happened
}

// Stats returns the current counts.
func (b *Broker) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// Counts are the numbers of messages in a queue or subscription, by state.
type Counts struct {
	Ready       int // for delivery
	Locked      int // delivered, but not settled
	Deferred    int
	Scheduled   int
	DeadLetters int // in its dead-letter queue
}

// Counts counts the messages of the queue, subscription or dead-letter queue at
// a path. For a topic, it counts the scheduled messages.
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

// Connections returns the number of connected clients.
func (b *Broker) Connections() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.conns {
		if !c.closed {
			n++
		}
	}
	return n
}
