package devbus

import (
	"slices"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// This file handles messages that are not ready for delivery: scheduled
// messages before their time, and deferred messages, which a receiver must
// request by sequence number.

// stamp returns t on the broker's clock, which ClockSkew sets ahead. Only times
// that clients see are stamped; the broker itself uses real time.
func (b *Broker) stamp(t time.Time) time.Time { return t.Add(b.skew()).UTC() }

// due returns how long a message must wait before it is enqueued.
func (b *Broker) due(c *content) time.Duration {
	if c.scheduled.IsZero() {
		return 0
	}
	return time.Until(c.scheduled) - b.skew()
}

func (q *queue) schedule(m *message, due time.Duration) {
	m.state = stateScheduled
	m.enqueued = q.b.stamp(time.Now())
	q.add(m)
	q.b.alarms.set(&m.alarm, time.Now().Add(due), m)
}

// activate enqueues a scheduled message as if it was sent now. As in the
// service, it receives a new sequence number, and the old one becomes invalid.
func (q *queue) activate(m *message) {
	q.touch() // a scheduled message uses the queue until now
	q.remove(m)
	q.sequence++
	m.sequence = q.sequence
	m.state = stateReady
	q.enqueue(m)
}

// cancelScheduled removes a scheduled message. It reports whether the message
// existed.
func (q *queue) cancelScheduled(sequence int64) bool {
	m := q.all.get(sequence)
	if m == nil || m.state != stateScheduled {
		return false
	}
	q.touch()
	q.remove(m)
	return true
}

// deferLocked defers a locked message.
func (q *queue) deferLocked(m *message) {
	m.deferred = true
	q.unlock(m, false)
}

// takeDeferred locks all deferred messages with these sequence numbers, or
// none. In receive-and-delete mode it removes them instead.
func (q *queue) takeDeferred(numbers []int64, session string, remove bool) ([]*message, *amqp.Error) {
	q.touch()
	taken := make([]*message, len(numbers))
	for i, n := range numbers {
		m := q.all.get(n)
		if m == nil || m.state != stateDeferred || slices.Contains(taken, m) {
			return nil, amqp.Errorf(condMessageNotFound, "Failed to lock one or more specified messages. The message does not exist: %d.", n)
		}
		if q.groups != nil {
			g := q.groups[m.content.session]
			if m.content.session != session || g == nil || g.holder == nil {
				return nil, amqp.Errorf(condSessionLockLost, "The lock of session '%s' is not held.", m.content.session)
			}
			m.group = g
		}
		taken[i] = m
	}
	for _, m := range taken {
		if remove {
			q.remove(m)
		} else {
			q.lock(m)
		}
	}
	return taken, nil
}
