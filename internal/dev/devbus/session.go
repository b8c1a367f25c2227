package devbus

import (
	"maps"
	"slices"

	"kennel/internal/dev/devbus/amqp"
)

// session is an AMQP session: links that share a channel of a connection, and
// a window of frames in each direction. (Service Bus sessions are groups.)
type session struct {
	c       *conn
	channel uint16               // the client's number, and ours
	links   map[uint32]*endpoint // by the client's handle, which is ours, too

	nextIncoming uint32
	nextOutgoing uint32 // of transfer frames
	nextDelivery uint32
	window       int64 // how many more transfer frames the client takes
	held         []heldFrame
	unsettled    map[uint32]delivery // sent to the client, by delivery-id
}

// heldFrame is a part of a message that did not fit into the window.
type heldFrame struct {
	l       *outlink
	t       amqp.Transfer
	payload []byte
}

// delivery is a message out with a client, which is to say what became of it.
type delivery struct {
	l     *outlink
	q     *queue
	token amqp.UUID
}

// broad is the window the broker offers: clients are held back by credit.
const broad = 1 << 30

func newSession(c *conn, channel uint16, p *amqp.Begin) *session {
	return &session{
		c: c, channel: channel, links: map[uint32]*endpoint{}, unsettled: map[uint32]delivery{},
		nextIncoming: p.NextOutgoing, window: int64(p.IncomingWindow),
	}
}

// handle does what a frame says. An error ends the session.
func (s *session) handle(f *amqp.Frame) error {
	body, err := f.Body()
	if err != nil {
		return err
	}
	switch p := body.(type) {
	case *amqp.Attach:
		return s.attach(*p)
	case *amqp.Flow:
		return s.flow(*p)
	case *amqp.Transfer:
		return s.transfer(*p, f.Payload)
	case *amqp.Disposition:
		s.disposition(*p)
	case *amqp.Detach:
		return s.detach(p.Handle)
	}
	return nil // Open, Begin, End and Close are the connection's
}

// end forgets the session and all that hangs on it.
func (s *session) end() {
	for _, handle := range slices.Sorted(maps.Keys(s.links)) {
		s.links[handle].end()
	}
	clear(s.links)
}

func (s *session) flow(p amqp.Flow) error {
	wasShut := s.window <= 0
	if p.HasNextIncoming {
		s.window = int64(int32(p.NextIncoming + p.IncomingWindow - s.nextOutgoing))
	}
	s.flush()
	if p.HasHandle {
		l := s.links[p.Handle]
		if l == nil {
			return amqp.Errorf(amqp.CondUnattached, "flow: handle %d is not attached", p.Handle)
		}
		switch {
		case l.ended:
		case l.out != nil:
			l.out.flow(p)
		case p.Echo:
			l.in.credit = 0 // so that it is granted, and told, again
			l.in.grant()
		}
	} else if p.Echo {
		s.sendFlow(amqp.Flow{})
	}
	if wasShut && s.window > 0 {
		s.pump()
	}
	return nil
}

// pump has every link of the session send what it could not before.
func (s *session) pump() {
	for _, handle := range slices.Sorted(maps.Keys(s.links)) {
		if l := s.links[handle]; l != nil && l.out != nil {
			l.out.pump()
		}
	}
}

func (s *session) transfer(p amqp.Transfer, payload []byte) error {
	s.nextIncoming++
	l := s.links[p.Handle]
	if l == nil {
		return amqp.Errorf(amqp.CondUnattached, "transfer: handle %d is not attached", p.Handle)
	}
	if l.in == nil {
		return amqp.Errorf(amqp.CondNotAllowed, "transfer: the client receives on link %q", l.name)
	}
	if !l.ended { // else it was sent before the client heard of the end
		l.in.transfer(p, payload)
	}
	return nil
}

func (s *session) detach(handle uint32) error {
	l := s.links[handle]
	if l == nil {
		return amqp.Errorf(amqp.CondUnattached, "detach: handle %d is not attached", handle)
	}
	l.detach(nil)
	delete(s.links, handle)
	return nil
}

// sendTransfer sends a part of a message, or holds it back until the client's
// window has room.
func (s *session) sendTransfer(l *outlink, t amqp.Transfer, payload []byte) {
	if s.window <= 0 || len(s.held) > 0 {
		s.held = append(s.held, heldFrame{l, t, slices.Clone(payload)})
		return
	}
	s.window--
	s.nextOutgoing++
	s.c.w.send(func(b []byte) []byte { return amqp.AppendFrame(b, amqp.KindAMQP, s.channel, t, payload) })
}

func (s *session) flush() {
	held := s.held
	s.held = nil
	for _, h := range held {
		s.sendTransfer(h.l, h.t, h.payload)
	}
}

// disposition is the client saying what became of deliveries.
func (s *session) disposition(p amqp.Disposition) {
	if !p.Receiver {
		return // about what it sent: the broker has settled all that already
	}
	// The range is the client's word, and may span four billion.
	var ids []uint32
	if span := p.Last - p.First; uint64(span) < uint64(len(s.unsettled)) {
		for i := uint32(0); i <= span; i++ {
			ids = append(ids, p.First+i)
		}
	} else {
		for id := range s.unsettled {
			if id-p.First <= span {
				ids = append(ids, id)
			}
		}
		slices.SortFunc(ids, func(a, b uint32) int { return int(int64(a-p.First) - int64(b-p.First)) })
	}
	for _, id := range ids {
		if d, ok := s.unsettled[id]; ok {
			s.settle(id, d, p)
		}
	}
}

// settle applies an outcome, and confirms it if the client asked for that by
// not settling itself.
func (s *session) settle(id uint32, d delivery, p amqp.Disposition) {
	if p.State.Code == 0 && !p.Settled || p.State.Code == amqp.CodeReceived {
		return // an interim state
	}
	o := p.State
	if o.Code == 0 {
		o = released // settled without an outcome
	}
	v := s.c.b.judge(OnSettle, d.q.path)
	confirmed := amqp.Outcome{Code: o.Code}
	switch {
	case v.refuse != nil:
		confirmed = amqp.Rejected(v.refuse)
	case v.release:
		confirmed = released
	}
	if !v.skip {
		if err := d.q.settle(d.token, o); err != nil {
			confirmed = amqp.Rejected(err)
		}
		d.q.pump()
	}
	delete(s.unsettled, id)
	d.l.conclude(v, func() {
		if !p.Settled {
			send(s, amqp.Disposition{First: id, Last: id, Settled: true, State: confirmed})
		}
	})
}

// send sends a performative on the session.
func send[B amqp.Performative](s *session, p B) {
	s.c.w.send(func(b []byte) []byte { return amqp.AppendFrame(b, amqp.KindAMQP, s.channel, p, nil) })
}

// sendFlow completes a flow with what the session knows.
func (s *session) sendFlow(p amqp.Flow) {
	p.NextIncoming, p.HasNextIncoming, p.IncomingWindow = s.nextIncoming, true, broad
	p.NextOutgoing, p.OutgoingWindow = s.nextOutgoing, broad
	send(s, p)
}
