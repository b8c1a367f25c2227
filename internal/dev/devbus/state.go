package devbus

import (
	"slices"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// This file is the life of a message in a queue: its states, and each
// transition between them.
//
//	scheduled   until its time comes or a sender cancels it
//	ready       to be delivered
//	locked      delivered to a receiver, until it settles the message or the
//	            lock expires
//	deferred    until a receiver requests it by sequence number
//
// A message ends when a receiver completes it, when a receiver deletes it on
// delivery, or when it expires. A message that failed too often, expired or
// was rejected by a receiver may become a dead letter: it is moved to another
// queue, with the reason.

type state int

const (
	stateReady state = iota
	stateLocked
	stateDeferred
	stateScheduled
)

// message is a message in a queue.
type message struct {
	alarm // rings when the state expires

	content       *content
	q             *queue
	group         *group // its session, if the queue has sessions
	sequence      int64
	topicSequence int64 // of a subscription's message: its number in the topic
	enqueued      time.Time
	ttl           time.Duration
	expires       time.Time // zero: never
	failures      uint32    // failed deliveries

	state       state
	deferred    bool      // until it is settled, also while it is locked
	token       amqp.UUID // of the lock
	lockedUntil time.Time
}

// leaveState removes a message from the structures of its state.
func (q *queue) leaveState(m *message) {
	q.b.alarms.cancel(&m.alarm)
	switch m.state {
	case stateReady:
		q.line(m).remove(m)
	case stateLocked:
		delete(q.locked, m.token)
	}
}

// line returns the shelf in which a message waits for its delivery.
func (q *queue) line(m *message) *shelf {
	if m.group != nil {
		return &m.group.ready
	}
	return &q.ready
}

// makeReady queues a message that is in no state. A message that was queued
// before returns to its old place.
func (q *queue) makeReady(m *message) {
	if q.groups != nil {
		m.group = q.groupOf(m.content.session)
	}
	m.state = stateReady
	q.line(m).add(m)
	if !m.expires.IsZero() {
		q.b.alarms.set(&m.alarm, m.expires, m)
	}
}

// ring ends a message's state: the lock expires, the scheduled time arrives, or
// the time to live is over.
func (m *message) ring() {
	q := m.q
	switch m.state {
	case stateLocked:
		q.unlock(m, true)
	case stateScheduled:
		q.activate(m)
	default:
		q.expire(m)
	}
	q.pump()
}

func (m *message) expired() bool { return !m.expires.IsZero() && !time.Now().Before(m.expires) }

func (q *queue) expire(m *message) {
	if q.settings.DeadLetterOnExpiry && q.deadLetters != nil {
		q.deadLetter(m, "TTLExpiredException", "The message expired and was dead lettered.")
		return
	}
	q.remove(m)
}

func (q *queue) schedule(m *message, due time.Time) {
	m.state = stateScheduled
	m.enqueued = q.b.stamp(time.Now())
	q.add(m)
	q.b.alarms.set(&m.alarm, due, m)
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

// lock locks a ready or deferred message for a receiver. A message of a Service
// Bus session has no lock of its own, but shares the session's.
func (q *queue) lock(m *message) {
	q.leaveState(m)
	m.state = stateLocked
	m.token = newUUID()
	q.locked[m.token] = m
	q.extend(m)
}

// extend restarts the duration of a message's lock.
func (q *queue) extend(m *message) {
	if m.group != nil {
		m.lockedUntil = m.group.lockedUntil
		return
	}
	until := time.Now().Add(q.settings.LockDuration)
	m.lockedUntil = q.b.stamp(until)
	q.b.alarms.set(&m.alarm, until, m)
}

// unlock returns a locked message to the queue. failed reports that the
// delivery counts as a failure. A message that failed too often becomes a dead
// letter. The failures of a dead letter are not counted.
func (q *queue) unlock(m *message, failed bool) {
	q.leaveState(m)
	if failed && q.deadLetters != nil {
		m.failures++
		if m.failures >= uint32(q.settings.MaxDeliveryCount) {
			q.deadLetter(m, "MaxDeliveryCountExceeded", "Message could not be consumed after the maximum number of delivery attempts.")
			return
		}
	}
	switch {
	case m.deferred:
		m.state = stateDeferred // it expires when a receiver requests it
	case m.expired():
		q.expire(m)
	default:
		q.makeReady(m)
	}
}

var errLockLost = amqp.Errorf(condLockLost, "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue.")

// settle applies a receiver's outcome to a locked message. The caller must call
// pump.
func (q *queue) settle(token amqp.UUID, o amqp.Outcome) *amqp.Error {
	m := q.locked[token]
	if m == nil {
		return errLockLost
	}
	q.touch()
	switch o.Code {
	case amqp.CodeAccepted:
		q.remove(m)
	case amqp.CodeRejected:
		if q.deadLetters == nil {
			return amqp.Errorf(amqp.CondNotAllowed, "A message in a dead-letter queue cannot be dead-lettered. Complete it, or abandon it.")
		}
		var set []property
		if o.Err != nil {
			set = properties(o.Err.Info)
		}
		q.deadLetterWith(m, set)
	case amqp.CodeReleased:
		q.unlock(m, false) // the receiver did not process it
	case amqp.CodeModified:
		q.change(m, properties(o.Annotations))
		m.deferred = m.deferred || o.UndeliverableHere
		q.unlock(m, true) // abandoning and deferring are failures, regardless of delivery-failed
	default:
		return amqp.Errorf(amqp.CondNotImplemented, "outcome %#02x is not supported", o.Code)
	}
	return nil
}

// change sets application properties of a message.
func (q *queue) change(m *message, set []property) {
	q.bytes -= m.content.size()
	m.content = m.content.with(set)
	q.bytes += m.content.size()
}

// renew extends a message's lock and returns its new end.
func (q *queue) renew(token amqp.UUID) (time.Time, *amqp.Error) {
	m := q.locked[token]
	if m == nil {
		return time.Time{}, errLockLost
	}
	if m.group != nil {
		return time.Time{}, amqp.Errorf(amqp.CondNotAllowed, "A message of a session has no lock of its own. Renew the lock of the session.")
	}
	q.touch()
	q.extend(m)
	return m.lockedUntil, nil
}

// takeDeferred locks all deferred messages with these sequence numbers, or
// none. In receive-and-delete mode it removes them instead.
func (q *queue) takeDeferred(numbers []int64, session string, remove bool) ([]*message, *amqp.Error) {
	q.touch()
	taken := make([]*message, len(numbers))
	for i, n := range numbers {
		m := q.all.get(n)
		if m != nil && m.state == stateDeferred && m.expired() {
			q.expire(m)
			m = nil
		}
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

const (
	deadLetterReason      = "DeadLetterReason"
	deadLetterDescription = "DeadLetterErrorDescription"
)

func (q *queue) deadLetter(m *message, reason, description string) {
	q.deadLetterWith(m, []property{{deadLetterReason, reason}, {deadLetterDescription, description}})
}

// deadLetterWith sets properties of a message and moves it to the dead-letter
// queue. The message keeps its sequence number and its failures, and does not
// expire.
func (q *queue) deadLetterWith(m *message, set []property) {
	q.remove(m)
	m.content = m.content.with(set)
	m.ttl, m.expires, m.group, m.deferred = 0, time.Time{}, nil, false
	d := q.deadLetters
	d.add(m)
	d.makeReady(m)
	d.pump()
}
