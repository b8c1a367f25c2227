package devbus

import (
	"slices"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// This file is about messages that are not to be delivered now: scheduled
// ones, whose time has not come, and deferred ones, which are handed out only
// to who asks for them by number.

// stamp is a time on the broker's clock, which a fault can set wrong. Only
// what clients get to see is stamped; the broker itself keeps real time.
func (b *Broker) stamp(t time.Time) time.Time { return t.Add(b.skew()).UTC() }

// due is how long a message is to wait before it is enqueued.
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

// activate enqueues a scheduled message as if it had been sent now. The number
// it had is not valid any more, as with the service.
func (q *queue) activate(m *message) {
	q.touch() // it was in use until now
	q.remove(m)
	q.sequence++
	m.sequence = q.sequence
	m.state = stateReady
	q.enqueue(m)
}

// cancelScheduled reports whether there was such a scheduled message.
func (q *queue) cancelScheduled(sequence int64) bool {
	m := q.all.get(sequence)
	if m == nil || m.state != stateScheduled {
		return false
	}
	q.touch()
	q.remove(m)
	return true
}

// putAside defers a locked message.
func (q *queue) putAside(m *message) {
	m.deferred = true
	q.unlock(m, false)
}

// takeDeferred locks deferred messages by their numbers: all or none. In
// receive-and-delete mode they are removed.
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
