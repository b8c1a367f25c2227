package devbus

import (
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// This file handles delivered messages. A message is locked until its receiver
// settles it or the lock expires. A message of a Service Bus session has no
// lock of its own, but shares the session's.

// lock locks a ready or deferred message for a receiver.
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
// letter.
func (q *queue) unlock(m *message, failed bool) {
	q.leaveState(m)
	if failed {
		m.failures++
		if q.deadLetters != nil && m.failures >= uint32(q.settings.MaxDeliveryCount) {
			q.deadLetter(m, "MaxDeliveryCountExceeded", "Message could not be consumed after the maximum number of delivery attempts.")
			return
		}
	}
	switch {
	case !m.expires.IsZero() && !time.Now().Before(m.expires):
		q.expire(m)
	case m.deferred:
		m.state = stateDeferred
		q.watchExpiry(m)
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
		var set []property
		if o.Err != nil {
			set = properties(o.Err.Info)
		}
		q.deadLetterWith(m, set)
	case amqp.CodeReleased:
		q.unlock(m, false) // the receiver did not process it
	case amqp.CodeModified:
		q.change(m, properties(o.Annotations))
		if o.UndeliverableHere {
			q.deferLocked(m)
		} else {
			q.unlock(m, true) // abandoning is a failure, regardless of delivery-failed
		}
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

// Dead letters are messages that failed too often, expired, or were rejected by
// a receiver. They wait in a separate queue, with the reason, until a receiver
// completes them.

const (
	deadLetterReason      = "DeadLetterReason"
	deadLetterDescription = "DeadLetterErrorDescription"
)

// newDeadLetterQueue creates one of q's dead-letter queues. It has no sessions,
// no size limit and no dead-letter queue.
func (b *Broker) newDeadLetterQueue(q *queue, suffix string) *queue {
	d := b.newQueue(q.path+suffix, q.name+suffix, &Settings{
		LockDuration: q.settings.LockDuration,
		MaxBytes:     1 << 62,
	})
	d.owner = q
	return d
}

func (q *queue) deadLetter(m *message, reason, description string) {
	q.deadLetterWith(m, []property{{deadLetterReason, reason}, {deadLetterDescription, description}})
}

// deadLetterWith sets properties of a message and moves it to the dead-letter
// queue. The message keeps its sequence number and its failures, and does not
// expire.
func (q *queue) deadLetterWith(m *message, set []property) {
	if q.deadLetters == nil {
		q.change(m, set)
		q.unlock(m, false) // a dead letter stays in its queue
		return
	}
	q.remove(m)
	m.content = m.content.with(set)
	m.deadLetterSource = q.path
	m.ttl, m.expires, m.group, m.deferred = 0, time.Time{}, nil, false
	d := q.deadLetters
	d.add(m)
	d.makeReady(m)
	d.pump()
}
