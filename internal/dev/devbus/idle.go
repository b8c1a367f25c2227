package devbus

import (
	"slices"
	"time"
)

// An entity that nobody uses for AutoDeleteOnIdle is deleted. For a queue,
// sending, receiving, peeking, updates and scheduled messages are use. For a
// subscription, sending to its topic is not: a subscription whose receiver is
// gone must not live on because the topic is busy. A receiver that waits with
// credit uses the entity as long as it waits; one without credit does not.

// idler is a queue or topic as its idle alarm sees it.
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

// used notes a use of the entity.
func (e *entity) used(i idler) {
	e.accessed = time.Now()
	if e.settings.AutoDeleteOnIdle == 0 || e.gone || e.idle.index > 0 {
		return // an alarm that is set sees by itself that it rings too early
	}
	e.b.alarms.set(&e.idle, e.accessed.Add(e.settings.AutoDeleteOnIdle), idleAlarm{e, i})
}

// touch notes a use of the queue, and so of the topic it may belong to.
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
