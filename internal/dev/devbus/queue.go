package devbus

import (
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// queue holds messages for receivers. It is a queue, a subscription, or a
// dead-letter queue of either. This file stores and delivers messages; state.go
// defines the states of a message.
type queue struct {
	entity
	topic       *topic // of a subscription
	owner       *queue // of a dead-letter queue
	deadLetters *queue // nil for dead-letter queues

	sequence  int64 // the last one assigned
	bytes     int64
	all       shelf
	ready     shelf // to be delivered; unused if the queue has sessions
	locked    map[amqp.UUID]*message
	consumers []*outlink
	turn      int // index of the consumer to try first
	history   history

	groups    map[string]*group // by session id
	acceptors []*acceptor       // wait for any session
}

func (b *Broker) newQueue(path, name string, s *Settings) *queue {
	q := &queue{entity: b.newEntity(path, name, s), locked: map[amqp.UUID]*message{}}
	if q.settings.RequiresSession {
		q.groups = map[string]*group{}
	}
	return q
}

func (q *queue) accept(batch []*content) ([]int64, *amqp.Error) {
	q.touch()
	size := int64(0)
	for _, c := range batch {
		size += c.size()
		if q.settings.RequiresSession && !c.hasSession {
			return nil, amqp.Errorf(amqp.CondNotAllowed, "The SessionId was not set on a message, and it cannot be sent to the entity '%s', which requires sessions.", q.path)
		}
	}
	if q.size()+size > q.settings.MaxBytes {
		return nil, q.full()
	}
	numbers := make([]int64, len(batch))
	for i, c := range batch {
		numbers[i] = q.put(c)
	}
	q.pump()
	return numbers, nil
}

// put stores or schedules a message, and returns its sequence number. For a
// duplicate, it returns the number of the first message. The caller must call
// pump.
func (q *queue) put(c *content) int64 {
	if sequence, seen := q.history.seen(c.id, q.settings.DuplicateWindow); seen {
		q.b.stats.Duplicates++
		return sequence
	}
	q.sequence++
	q.history.remember(c.id, q.sequence, q.settings.DuplicateWindow)
	m := &message{content: c, q: q, sequence: q.sequence}
	if due := q.b.due(c); due.After(time.Now()) {
		q.schedule(m, due)
	} else {
		q.enqueue(m)
	}
	return m.sequence
}

// enqueue makes a new message ready for delivery.
func (q *queue) enqueue(m *message) {
	now := time.Now()
	m.enqueued = q.b.stamp(now)
	m.ttl = m.content.ttl
	if limit := q.settings.TimeToLive; limit > 0 && (m.ttl == 0 || m.ttl > limit) {
		m.ttl = limit
	}
	if m.ttl > 0 {
		m.expires = now.Add(m.ttl)
	}
	q.b.stats.Stored++
	q.add(m)
	if q.groups != nil && !m.content.hasSession {
		q.deadLetter(m, "Session ID is null", "Session enabled entity doesn't allow a message whose session identifier is null.")
		return
	}
	q.makeReady(m)
}

// size returns the bytes that count towards MaxBytes.
func (q *queue) size() int64 { return q.bytes + q.deadLetters.bytes }

func (q *queue) add(m *message) {
	m.q = q
	q.all.add(m)
	q.bytes += m.content.size()
}

// remove removes a message in any state.
func (q *queue) remove(m *message) {
	q.leaveState(m)
	q.all.remove(m)
	q.bytes -= m.content.size()
}

// pump delivers ready messages to consumers with credit.
func (q *queue) pump() {
	if q.groups != nil {
		q.pumpGroups()
		return
	}
	for len(q.ready) > 0 {
		l := q.nextConsumer()
		if l == nil {
			return
		}
		q.deliver(l, q.ready[0])
	}
}

// nextConsumer returns the next consumer in turn that may receive, or nil.
func (q *queue) nextConsumer() *outlink {
	for i := range q.consumers {
		at := (q.turn + i) % len(q.consumers)
		if l := q.consumers[at]; l.open() {
			q.turn = at + 1
			return l
		}
	}
	return nil
}

// deliver sends a ready message to a link that may receive.
func (q *queue) deliver(l *outlink, m *message) {
	q.touch()
	if l.settled {
		q.remove(m)
		m.token = newUUID()
	} else {
		q.lock(m)
	}
	q.b.scratch = m.render(q.b.scratch[:0], !l.settled)
	l.deliver(m, q.b.scratch)
}

// clear drops all messages of a queue that is being deleted.
func (q *queue) clear() {
	for _, m := range q.all {
		q.b.alarms.cancel(&m.alarm)
	}
	for _, g := range q.groups {
		q.b.alarms.cancel(&g.alarm)
	}
	for _, a := range q.acceptors {
		a.refuse(q.b.unknown(q.path))
	}
	q.all, q.ready, q.acceptors, q.bytes = nil, nil, nil, 0
	clear(q.locked)
	clear(q.groups)
}
