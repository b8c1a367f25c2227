package devbus

import (
	"slices"
	"strings"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// This file attaches links. It finds the entity or request node that a client
// requests, and checks that the client may attach to it.

// attach answers an Attach with the link or a refusal, immediately or later. An
// error ends the session.
func (s *session) attach(p amqp.Attach) error {
	if s.links[p.Handle] != nil {
		return amqp.Errorf(amqp.CondHandleInUse, "attach: handle %d is in use", p.Handle)
	}
	if p.Source == nil {
		p.Source = &amqp.Source{}
	}
	if p.Target == nil {
		p.Target = &amqp.Target{}
	}
	s.c.b.stats.Attached++
	l := endpoint{s: s, name: p.Name, handle: p.Handle, pending: &p, maxSize: s.c.b.maxMessage}
	if p.Receiver {
		l.address = key(p.Source.Address)
		out := &outlink{endpoint: l, settled: p.SendMode != nil && *p.SendMode == 1}
		out.out = out
		s.links[p.Handle] = &out.endpoint
		s.attachReceiver(out, p)
	} else {
		l.address = key(p.Target.Address)
		in := &inlink{endpoint: l}
		in.in = in
		s.links[p.Handle] = &in.endpoint
		s.attachSender(in, p)
	}
	return nil
}

// acceptance returns the broker's answer to the client's Attach. It has the same
// name, handle and settle modes, which the SDKs require, and the opposite role.
func (l *endpoint) acceptance() amqp.Attach {
	p := l.pending
	a := amqp.Attach{
		Name: p.Name, Handle: p.Handle, Receiver: !p.Receiver,
		SendMode: p.SendMode, SettleMode: p.SettleMode,
		Source: &amqp.Source{Address: p.Source.Address}, Target: &amqp.Target{Address: p.Target.Address},
	}
	if l.in != nil { // a receiver has no limit, because messages grow when they are dead-lettered
		a.MaxSize = uint64(l.maxSize)
		a.Properties = amqp.Map{amqp.Symbol(nameMaxBatchSize), uint64(min(l.maxSize, maxBatch))}
	}
	return a
}

// attached confirms the link to the client.
func (l *endpoint) attached(answer amqp.Attach) {
	l.pending = nil
	l.watch()
	send(l.s, answer)
}

// bind adds the link to an entity, whose deletion ends the link.
func (l *endpoint) bind(e *entity) {
	l.entity, l.maxSize = e, e.settings.MaxMessageBytes
	e.links = append(e.links, l)
}

func (s *session) attachSender(l *inlink, p amqp.Attach) {
	if p.Target.Coordinator {
		l.detach(amqp.Errorf(amqp.CondNotImplemented, "devbus does not support transactions."))
		return
	}
	if err := s.attachSenderTo(l, p.Target.Address); err != nil {
		l.detach(err)
		return
	}
	l.attached(l.acceptance())
	l.grant()
}

func (s *session) attachSenderTo(l *inlink, address string) *amqp.Error {
	b := s.c.b
	if l.forRequests() {
		return s.attachRequests(&l.endpoint)
	}
	if err := l.admit(); err != nil {
		return err
	}
	if t := b.topics[l.address]; t != nil {
		if !t.settings.sends() {
			return t.disabled()
		}
		l.bind(&t.entity)
		l.sendTo(t)
		return nil
	}
	q := b.queues[l.address]
	switch {
	case q == nil:
		return b.unknown(address)
	case q.topic != nil || q.owner != nil:
		return amqp.Errorf(amqp.CondNotAllowed, "Messages cannot be sent to '%s': send to its topic or queue.", q.path)
	case !q.settings.sends():
		return q.disabled()
	}
	l.bind(&q.entity)
	l.sendTo(q)
	return nil
}

func (s *session) attachReceiver(l *outlink, p amqp.Attach) {
	b := s.c.b
	address := p.Source.Address
	if l.forRequests() {
		if err := s.attachRequests(&l.endpoint); err != nil {
			l.detach(err)
			return
		}
		l.settled, l.replyTo = true, p.Target.Address
		l.attached(l.acceptance())
		return
	}
	q, filter := b.queues[l.address], sessionFilterOf(&p)
	err := l.admit()
	switch {
	case err != nil:
	case q == nil && b.topics[l.address] != nil:
		err = amqp.Errorf(amqp.CondNotAllowed, "Messages cannot be received from topic '%s': receive from a subscription.", address)
	case q == nil:
		err = b.unknown(address)
	case !q.settings.receives():
		err = q.disabled()
	case q.groups != nil && filter == nil:
		err = amqp.Errorf(amqp.CondNotAllowed, "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.")
	case q.groups == nil && filter != nil:
		err = amqp.Errorf(amqp.CondNotAllowed, "A sessionful message receiver cannot be created on an entity that does not require sessions.")
	}
	if err != nil {
		l.detach(err)
		return
	}
	l.q = q
	l.bind(&q.entity)
	q.touch()
	if q.groups != nil {
		q.attachToGroup(l, p, filter)
		return
	}
	q.consumers = append(q.consumers, l)
	l.attached(l.acceptance())
}

// attachToGroup attaches the link to the session that the client requests, or
// to the next session that has messages. If no session has messages, the link
// waits for one.
func (q *queue) attachToGroup(l *outlink, p amqp.Attach, filter *sessionFilter) {
	give := func(g *group) {
		g.hold(l)
		q.consumers = append(q.consumers, l)
		answer := l.acceptance()
		answer.Source.Filter = filter.answer(g.id)
		answer.Properties = append(answer.Properties, amqp.Symbol(nameSessionLockedTill), ticks(g.lockedUntil))
		l.attached(answer)
	}
	if !filter.any {
		g := q.groupOf(filter.id)
		if g.holder != nil {
			l.detach(amqp.Errorf(condSessionLocked, "The requested session '%s' cannot be accepted. It may be locked by another receiver.", g.id))
			return
		}
		give(g)
		return
	}
	a := &acceptor{q: q, give: give, fails: l.detach}
	wait := time.Minute
	if ms, ok := amqp.Int(p.Properties.Get(nameTimeout)); ok {
		wait = time.Duration(ms) * time.Millisecond
	}
	q.acceptors = append(q.acceptors, a)
	q.b.alarms.set(&a.alarm, time.Now().Add(wait), a)
	l.leave = a.withdraw
	q.pump()
}

// sessionFilter is the filter of a source that requests a session.
type sessionFilter struct {
	plain bool // not a described value; the answer must use the same form
	any   bool // the next session that has messages
	id    string
}

// sessionFilterOf returns nil if the client requests no session.
func sessionFilterOf(p *amqp.Attach) *sessionFilter {
	for name, v := range p.Source.Filter.All() {
		if amqp.Text(name) == nameSessionFilter {
			d, described := v.(amqp.Described)
			if described {
				v = d.Value
			}
			return &sessionFilter{plain: !described, any: v == nil, id: amqp.Text(v)}
		}
	}
	return nil
}

// answer returns the filter that names the session that was accepted.
func (s *sessionFilter) answer(id string) amqp.Map {
	if s.plain {
		return amqp.Map{amqp.Symbol(nameSessionFilter), id}
	}
	return amqp.Map{amqp.Symbol(nameSessionFilter), amqp.Described{Descriptor: codeSessionFilter, Value: id}}
}

// ticks returns t in the unit of .NET: 100 ns since year 1.
func ticks(t time.Time) int64 { return t.Unix()*1e7 + int64(t.Nanosecond())/100 + 621355968000000000 }

// forRequests reports whether the link carries requests or replies.
func (l *endpoint) forRequests() bool {
	return l.address == addressCBS || strings.HasSuffix(l.address, suffixManagement)
}

// attachRequests attaches one of the two links of a request-response pair.
func (s *session) attachRequests(l *endpoint) *amqp.Error {
	if l.address == addressCBS {
		for _, o := range s.c.cbs {
			if (o.in == nil) == (l.in == nil) {
				return amqp.Errorf(amqp.CondNotAllowed, "Only one link to $cbs is allowed per connection.")
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
	if err := l.admit(); err != nil {
		return err
	}
	path := l.path()
	e := s.c.b.find(path)
	if e == nil {
		return s.c.b.unknown(path)
	}
	l.maxSize = e.settings.MaxMessageBytes // a request may carry messages
	if l.in != nil {
		l.in.take = func(d incoming) { s.c.takeRequest(l.in, path, d) }
	} else {
		s.c.listen(l.out)
	}
	return nil
}

// admit checks the connection's claims and the faults that refuse links.
func (l *endpoint) admit() *amqp.Error {
	if !l.s.c.claimed(l.address) {
		return amqp.Errorf(amqp.CondUnauthorized, "%s", l.unauthorized())
	}
	return l.s.c.b.judge(onAttach, l.path()).refuse
}
