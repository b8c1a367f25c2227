package devbus

import (
	"slices"
	"time"
)

// An entity that is unused for AutoDeleteOnIdle is deleted. Sending, receiving,
// peeking, updates and scheduled messages use a queue. Sending to a topic does
// not use its subscriptions, so that a busy topic does not keep a subscription
// without a receiver. A receiver uses the entity while it waits with credit,
// but not while it has no credit.

// idler is the part of a queue or topic that its idle alarm needs.
type idler interface {
	inUse() bool
	discard()
}

type idleAlarm struct {
	e *entity
	idler
}

func (i idleAlarm) ring() {
	e := i.e
	if i.inUse() {
		e.accessed = time.Now()
	}
	if until := e.accessed.Add(e.settings.AutoDeleteOnIdle); time.Now().Before(until) {
		e.b.alarms.set(&e.idle, until, i)
		return
	}
	e.b.stats.AutoDeleted++
	i.discard()
}

// used records a use of the entity.
func (e *entity) used(i idler) {
	e.accessed = time.Now()
	if e.settings.AutoDeleteOnIdle == 0 || e.deleted || e.idle.index > 0 {
		return // an alarm that is set checks the last use when it rings
	}
	e.b.alarms.set(&e.idle, e.accessed.Add(e.settings.AutoDeleteOnIdle), idleAlarm{e, i})
}

// touch records a use of the queue and, if it is a subscription, of its topic.
// A use of a dead-letter queue is a use of its owner.
func (q *queue) touch() {
	if q.owner != nil {
		q = q.owner
	}
	q.used(q)
	if q.topic != nil {
		q.topic.touch()
	}
}

func (t *topic) touch() { t.used(t) }

func (q *queue) discard() { q.b.removeQueue(q) }
func (t *topic) discard() { t.b.removeTopic(t) }

func (q *queue) inUse() bool {
	return len(q.acceptors) > 0 ||
		slices.ContainsFunc(slices.Concat(q.links, q.deadLetters.links), (*endpoint).waits) ||
		slices.ContainsFunc(q.all, func(m *message) bool { return m.state == stateScheduled })
}

func (t *topic) inUse() bool {
	return len(t.scheduled) > 0 || slices.ContainsFunc(t.subscriptions, (*queue).inUse)
}
