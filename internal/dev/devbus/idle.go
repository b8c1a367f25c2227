package devbus

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// This file ends unused entities, links and connections.

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
		e.lastUse = time.Now()
	}
	if until := e.lastUse.Add(e.settings.AutoDeleteOnIdle); time.Now().Before(until) {
		e.b.alarms.set(&e.idle, until, i)
		return
	}
	e.b.stats.AutoDeleted++
	i.discard()
}

// used records a use of the entity.
func (e *entity) used(i idler) {
	e.lastUse = time.Now()
	if e.settings.AutoDeleteOnIdle == 0 || e.deleted || e.idle.index > 0 {
		return // an alarm that is set checks the last use when it rings
	}
	e.b.alarms.set(&e.idle, e.lastUse.Add(e.settings.AutoDeleteOnIdle), idleAlarm{e, i})
}

// use records a use of the queue and, if it is a subscription, of its topic.
func (q *queue) use() {
	q.used(q)
	if q.topic != nil {
		q.topic.use()
	}
}

func (t *topic) use() { t.used(t) }

// touch records a use by a client. A use of a dead-letter queue is a use of its
// owner.
func (q *queue) touch() {
	if q.owner != nil {
		q = q.owner
	}
	q.accessed = time.Now()
	if q.topic != nil {
		q.topic.accessed = q.accessed
	}
	q.use()
}

func (t *topic) touch() {
	t.accessed = time.Now()
	t.use()
}

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

// A link that is idle for ten minutes is detached, except a receiver with
// credit. A connection that has no link for five minutes, or none in its first
// minute, is closed. Links to $cbs do not count. The errors have the service's
// words.
const (
	maxIdleLink = 10 * time.Minute
	maxUnlinked = 5 * time.Minute
	maxUnused   = time.Minute
)

// watch begins to watch a link that was attached.
func (l *endpoint) watch() {
	if l.address == addressCBS {
		return
	}
	l.watched, l.s.c.used = true, true
	l.used = time.Now()
	l.s.c.b.alarms.set(&l.idle, l.used.Add(maxIdleLink), l)
}

func (l *endpoint) unwatch() {
	if l.watched {
		l.watched, l.s.c.linked = false, time.Now()
		l.s.c.b.alarms.cancel(&l.idle)
	}
}

// ring detaches the link if it is idle.
func (l *endpoint) ring() {
	now := time.Now()
	if l.waits() {
		l.used = now
	}
	if until := l.used.Add(maxIdleLink); now.Before(until) {
		l.s.c.b.alarms.set(&l.idle, until, l)
		return
	}
	code, origin := "publisher", "AmqpMessagePublisher"
	switch {
	case l.entity == nil:
		code, origin = "controller", "AmqpControlProtocolClient"
	case l.out != nil:
		code, origin = "consumer", "AmqpMessageConsumer"
	}
	l.detach(amqp.Errorf(amqp.CondDetachForced, "The link '%s' is force detached. Code: %s(link%d). Details: %s.IdleTimerExpired: Idle timeout: 00:10:00.", l.name, code, l.handle, origin))
}

// useLink records the use of the link that a request names.
func (c *conn) useLink(name string) {
	for l := range c.links() {
		if l.name == name {
			l.used = time.Now()
		}
	}
}

// uses reports whether the connection has a link to an entity.
func (c *conn) uses(path string) bool {
	for l := range c.links() {
		if l.path() == key(path) {
			return true
		}
	}
	return false
}

// checkLinks closes the connection if it had no link for too long.
func (c *conn) checkLinks() {
	now, allowed := time.Now(), maxUnused
	if c.used {
		allowed = maxUnlinked
	}
	for l := range c.links() {
		if l.watched {
			c.linked = now
		}
	}
	if until := c.linked.Add(allowed); now.Before(until) {
		c.b.alarms.set(&c.lonely, until, ringFunc(c.checkLinks))
		return
	}
	c.close(amqp.Errorf(amqp.CondForced, "The connection was closed by container '%s' because it did not have any active links in the past %d milliseconds.", c.b.namespace, allowed.Milliseconds()))
}

// inOrder sorts the links of a connection.
func inOrder(a, b *endpoint) int {
	return cmp.Or(cmp.Compare(a.s.channel, b.s.channel), cmp.Compare(a.handle, b.handle))
}

// links returns all links of the connection, in random order.
func (c *conn) links() iter.Seq[*endpoint] {
	return func(yield func(*endpoint) bool) {
		for _, s := range c.sessions {
			if s == nil {
				continue
			}
			for _, l := range s.links {
				if !yield(l) {
					return
				}
			}
		}
	}
}
