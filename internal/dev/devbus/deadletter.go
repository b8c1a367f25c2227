package devbus

import (
	"time"
)

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
	q.b.stats.DeadLettered++
	q.remove(m)
	m.content = m.content.with(set)
	m.deadLetterSource = q.path
	m.ttl, m.expires, m.group, m.deferred = 0, time.Time{}, nil, false
	d := q.deadLetters
	d.add(m)
	d.makeReady(m)
	d.pump()
}
