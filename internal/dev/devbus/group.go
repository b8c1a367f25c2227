package devbus

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// Messages with the same session id form a Service Bus session. One receiver at
// a time holds the session's lock and receives its messages in order. This
// package calls Service Bus sessions groups, as AMQP does, because AMQP has
// other sessions.

// group is a Service Bus session of a queue: its messages, lock and state.
type group struct {
	alarm // rings when the lock ends

	q           *queue
	id          string
	ready       shelf
	holder      *outlink
	lockedUntil time.Time // as shown to clients
	state       []byte    // nil: none
	stateSet    time.Time
}

func (q *queue) groupOf(id string) *group {
	g := q.groups[id]
	if g == nil {
		g = &group{q: q, id: id}
		q.groups[id] = g
	}
	return g
}

// acceptor is a receiver that waits for the next session that has messages.
type acceptor struct {
	alarm // rings when it has waited long enough

	q     *queue
	give  func(*group)
	fails func(*amqp.Error)
}

func (a *acceptor) ring() {
	a.refuse(amqp.Errorf(condTimeout, "The operation did not complete within the allotted timeout: no session has messages."))
}

func (a *acceptor) refuse(err *amqp.Error) {
	a.withdraw()
	a.fails(err)
}

func (a *acceptor) withdraw() {
	a.q.b.alarms.cancel(&a.alarm)
	a.q.acceptors = slices.DeleteFunc(a.q.acceptors, func(o *acceptor) bool { return o == a })
}

// hold gives the lock of a group to a link.
func (g *group) hold(l *outlink) {
	g.holder = l
	l.group = g
	g.extend()
}

// extend restarts the lock's duration. Messages that were delivered to the
// holder share the lock.
func (g *group) extend() {
	until := time.Now().Add(g.q.settings.LockDuration)
	g.lockedUntil = g.q.b.stamp(until)
	g.q.b.alarms.set(&g.alarm, until, g)
	for _, m := range g.out() {
		m.lockedUntil = g.lockedUntil
	}
}

// out lists the group's locked messages in order.
func (g *group) out() []*message {
	var out []*message
	for _, m := range g.q.locked {
		if m.group == g {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *message) int { return cmp.Compare(a.sequence, b.sequence) })
	return out
}

// ring takes the lock from a holder that did not renew it in time.
func (g *group) ring() {
	l := g.holder
	g.release(true)
	l.detach(amqp.Errorf(condSessionLockLost, "The session lock has expired on the session '%s'. Accept the session again.", g.id))
	g.q.pump()
}

// release ends the lock. Delivered messages become ready again. Their delivery
// counts as failed if the lock expired, but not if the holder ended its link.
func (g *group) release(expired bool) {
	g.q.b.alarms.cancel(&g.alarm)
	g.holder.group, g.holder = nil, nil
	for _, m := range g.out() {
		g.q.unlock(m, expired)
	}
	if len(g.ready) == 0 && g.state == nil && len(g.out()) == 0 {
		delete(g.q.groups, g.id)
	}
}

// pumpGroups does the work of pump for a queue with sessions. It gives the
// sessions that have waited longest to waiting receivers, and delivers messages
// to the holders of locks.
func (q *queue) pumpGroups() {
	for len(q.acceptors) > 0 {
		g := q.nextGroup()
		if g == nil {
			break
		}
		a := q.acceptors[0]
		a.withdraw()
		a.give(g)
	}
	for _, l := range q.consumers {
		for g := l.group; g != nil && len(g.ready) > 0 && l.open(); {
			q.deliver(l, g.ready[0])
		}
	}
}

// nextGroup returns the unlocked group with the oldest first message, or nil.
func (q *queue) nextGroup() *group {
	var next *group
	for _, g := range q.groups {
		if g.holder == nil && len(g.ready) > 0 && (next == nil || g.ready[0].sequence < next.ready[0].sequence) {
			next = g
		}
	}
	return next
}

// held returns a group that is locked, or an error.
func (q *queue) held(id string) (*group, *amqp.Error) {
	g := q.groups[id]
	if g == nil || g.holder == nil {
		return nil, amqp.Errorf(condSessionLockLost, "The lock of session '%s' is not held.", id)
	}
	return g, nil
}

// sessionIDs lists the sessions that have messages or state. If since is not
// zero, it lists the sessions whose state was set after since.
func (q *queue) sessionIDs(since time.Time) []string {
	listed := map[string]bool{}
	for id, g := range q.groups {
		if since.IsZero() {
			listed[id] = len(g.ready) > 0 || g.state != nil || len(g.out()) > 0
		} else {
			listed[id] = g.state != nil && g.stateSet.After(since)
		}
	}
	maps.DeleteFunc(listed, func(_ string, l bool) bool { return !l })
	return slices.Sorted(maps.Keys(listed))
}
