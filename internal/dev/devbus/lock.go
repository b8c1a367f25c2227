package devbus

import (
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// This file is about messages that are out with a receiver: each is locked
// until the receiver says what became of it, or the lock runs out. A message
// of a session has no lock of its own, but that of the session.

// lock hands a ready or deferred message out.
func (q *queue) lock(m *message) {
	q.leaveState(m)
	m.state = stateLocked
	m.token = newUUID()
	q.locked[m.token] = m
	q.extend(m)
}

// extend sets the time a lock has left to that of a new one.
func (q *queue) extend(m *message) {
	if m.group != nil {
		m.lockedUntil = m.group.lockedUntil
		return
	}
	until := time.Now().Add(q.settings.LockDuration)
	m.lockedUntil = q.b.stamp(until)
	q.b.alarms.set(&m.alarm, until, m)
}

// unlock takes a locked message back. One that has failed too often goes to
// the dead letters.
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

// settle does with a locked message what its receiver says. The caller pumps.
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
		q.unlock(m, false) // its receiver never looked at it
	case amqp.CodeModified:
		q.change(m, properties(o.Annotations))
		if o.UndeliverableHere {
			q.putAside(m)
		} else {
			q.unlock(m, true) // an abandoned message counts, whatever delivery-failed says
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
		return time.Time{}, amqp.Errorf(amqp.CondNotAllowed, "A message of a session has no lock of its own: renew the session's.")
	}
	q.touch()
	q.extend(m)
	return m.lockedUntil, nil
}

// Dead letters are messages that nobody could or wanted to process. They wait
// in a queue of their own, with the reason, until someone takes them out.

const (
	deadLetterReason      = "DeadLetterReason"
	deadLetterDescription = "DeadLetterErrorDescription"
)

// newDeadLetterQueue makes one of q's dead-letter queues: without sessions,
// without limits, without dead letters of its own.
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

// deadLetterWith moves a message, with properties set on it, to the dead
// letters. It keeps its number and its failures, but lives for ever.
func (q *queue) deadLetterWith(m *message, set []property) {
	if q.deadLetters == nil {
		q.change(m, set)
		q.unlock(m, false) // it stays where it is
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
