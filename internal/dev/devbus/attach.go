package devbus

import (
	"slices"
	"strings"
	"time"
)

// This file decides what a link that a client asks for is attached to, and
// whether it may be.

// attach answers an attach frame: with the link, with a refusal, or later. An
// error is one of the session.
func (s *session) attach(p attachFrame) error {
	if s.links[p.handle] != nil {
		return refusal(condHandleInUse, "attach: handle %d is in use", p.handle)
	}
	s.c.b.stats.Attached++
	l := endpoint{s: s, name: p.name, handle: p.handle, pending: &p}
	if p.receives {
		out := &outlink{endpoint: l, settled: p.sendMode != nil && *p.sendMode == 1}
		out.out = out
		s.links[p.handle] = &out.endpoint
		s.attachReceiver(out, p)
	} else {
		in := &inlink{endpoint: l}
		in.in = in
		s.links[p.handle] = &in.endpoint
		s.attachSender(in, p)
	}
	return nil
}

// answer is the broker's attach frame for the client's: the same name, handle
// and settle modes (SDKs insist on theirs), the other role.
func (p *attachFrame) answer() attachFrame {
	return attachFrame{
		name: p.name, handle: p.handle, receives: !p.receives,
		sendMode: p.sendMode, settleMode: p.settleMode,
		source: p.source, target: p.target,
		maxSize: maxMessage,
		// Without it the Go SDK takes the batch size for that of a message.
		properties: mapping{{symbol(nameMaxBatchSize), uint64(maxMessage)}},
	}
}

// attached tells the client that its link is.
func (l *endpoint) attached(answer attachFrame) {
	l.pending = nil
	send(l.s, answer)
}

// bind makes the link one of an entity's, which ends it when it goes.
func (l *endpoint) bind(e *entity) {
	l.entity = e
	e.links = append(e.links, l)
}

func (s *session) attachSender(l *inlink, p attachFrame) {
	if p.coordinates {
		l.detach(refusal(condNotImplemented, "devbus has no transactions."))
		return
	}
	if err := s.attachSenderTo(l, p.target.address); err != nil {
		l.detach(err)
		return
	}
	l.attached(p.answer())
	l.grant()
}

func (s *session) attachSenderTo(l *inlink, address string) *amqpError {
	b := s.c.b
	if a := key(address); a == addressCBS || strings.HasSuffix(a, suffixManagement) {
		return s.attachRequests(&l.endpoint, a)
	}
	if err := s.admit(address); err != nil {
		return err
	}
	if t := b.topics[key(address)]; t != nil {
		if !t.settings.sends() {
			return t.disabled()
		}
		l.bind(&t.entity)
		l.sendTo(t)
		return nil
	}
	q := b.queues[key(address)]
	switch {
	case q == nil:
		return b.unknown(address)
	case q.topic != nil || q.owner != nil:
		return refusal(condNotAllowed, "Messages cannot be sent to '%s': send to its topic or queue.", q.path)
	case !q.settings.sends():
		return q.disabled()
	}
	l.bind(&q.entity)
	l.sendTo(q)
	return nil
}

func (s *session) attachReceiver(l *outlink, p attachFrame) {
	b := s.c.b
	address := p.source.address
	if a := key(address); a == addressCBS || strings.HasSuffix(a, suffixManagement) {
		if err := s.attachRequests(&l.endpoint, a); err != nil {
			l.detach(err)
			return
		}
		l.settled, l.replyTo = true, p.target.address
		l.attached(p.answer())
		return
	}
	q := b.queues[key(address)]
	err := s.admit(address)
	switch {
	case err != nil:
	case q == nil && b.topics[key(address)] != nil:
		err = refusal(condNotAllowed, "Messages cannot be received from topic '%s': receive from a subscription.", address)
	case q == nil:
		err = b.unknown(address)
	case !q.settings.receives():
		err = q.disabled()
	case q.groups != nil && !p.sessions.present:
		err = refusal(condNotAllowed, "It is not possible for the entity '%s', which requires sessions, to create a receiver without one.", q.path)
	case q.groups == nil && p.sessions.present:
		err = refusal(condNotAllowed, "The entity '%s' does not have sessions.", q.path)
	}
	if err != nil {
		l.detach(err)
		return
	}
	l.q = q
	l.bind(&q.entity)
	q.touch()
	if q.groups != nil {
		q.attachToGroup(l, p)
		return
	}
	q.consumers = append(q.consumers, l)
	l.attached(p.answer())
}

// attachToGroup gives the link the session it asks for, or the next that has
// messages, now or when there is one.
func (q *queue) attachToGroup(l *outlink, p attachFrame) {
	give := func(g *group) {
		g.hold(l)
		q.consumers = append(q.consumers, l)
		answer := p.answer()
		answer.sessions = p.sessions
		answer.sessions.id = g.id
		answer.properties = append(answer.properties, pair{symbol(nameSessionLockedTill), ticks(g.lockedUntil)})
		l.attached(answer)
	}
	if !p.sessions.any {
		g := q.groupOf(p.sessions.id)
		if g.holder != nil {
			l.detach(refusal(condSessionLocked, "The requested session '%s' cannot be accepted. It may be locked by another receiver.", g.id))
			return
		}
		give(g)
		return
	}
	a := &acceptor{q: q, give: give, fails: l.detach}
	wait := time.Minute
	if ms, ok := integer(p.properties.get(nameTimeout)); ok {
		wait = time.Duration(ms) * time.Millisecond
	}
	q.acceptors = append(q.acceptors, a)
	q.b.alarms.set(&a.alarm, time.Now().Add(wait), a)
	l.leave = a.withdraw
	q.pump()
}

// ticks is how .NET counts time: in units of 100 ns since year 1.
func ticks(t time.Time) int64 { return t.Unix()*1e7 + int64(t.Nanosecond())/100 + 621355968000000000 }

// attachRequests attaches one of the two links of a request-response pair.
func (s *session) attachRequests(l *endpoint, address string) *amqpError {
	b := s.c.b
	if address == addressCBS {
		for _, o := range s.c.cbs {
			if (o.in == nil) == (l.in == nil) {
				return refusal(condNotAllowed, "Only one link to $cbs is allowed per connection.")
			}
		}
		s.c.cbs = append(s.c.cbs, l)
		l.leave = func() {
			s.c.cbs = slices.DeleteFunc(s.c.cbs, func(o *endpoint) bool { return o == l })
		}
		if l.in != nil {
			l.in.take = func(d incoming) { s.c.takeClaim(l.in, d) }
		} else {
			s.c.listen(l.out)
		}
		return nil
	}
	if err := s.admit(address); err != nil {
		return err
	}
	path := strings.TrimSuffix(address, suffixManagement)
	if b.queues[path] == nil && b.topics[path] == nil {
		return b.unknown(path)
	}
	if l.in != nil {
		l.in.take = func(d incoming) { s.c.takeRequest(l.in, path, d) }
	} else {
		s.c.listen(l.out)
	}
	return nil
}

// admit checks the connection's claims, and whether a fault refuses the link.
func (s *session) admit(address string) *amqpError {
	if !s.c.claims(address) {
		return refusal(condUnauthorized, "Unauthorized access: no token was put for '%s'.", address)
	}
	return s.c.b.judge(onAttach, strings.TrimSuffix(key(address), suffixManagement)).refuse
}

func (b *Broker) unknown(address string) *amqpError {
	return refusal(condNotFound, "The messaging entity '%s' could not be found.", address)
}

func (e *entity) full() *amqpError {
	return refusal(condResourceLimit, "The maximum entity size has been reached or exceeded for '%s'.", e.path)
}

func (e *entity) disabled() *amqpError {
	return refusal(condEntityDisabled, "The messaging entity '%s' is disabled.", e.path)
}
