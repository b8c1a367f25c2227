package devbus

import (
	"maps"
	"slices"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// session is an AMQP session: links that share a channel of a connection, and a
// window of frames in each direction. Service Bus sessions are called groups.
type session struct {
	c       *conn
	channel uint16               // chosen by the client, and used by both sides
	links   map[uint32]*endpoint // by handle, which the client chooses and both sides use

	nextIncoming uint32
	nextOutgoing uint32 // of transfer frames
	nextDelivery uint32
	window       int64 // how many more transfer frames the client accepts
	held         []heldFrame
	unsettled    map[uint32]delivery // sent to the client, by delivery-id
}

// heldFrame is a part of a message that did not fit into the window.
type heldFrame struct {
	l       *outlink
	t       amqp.Transfer
	payload []byte
}

// delivery is a message that was sent to a client and is not settled yet.
type delivery struct {
	l     *outlink
	q     *queue
	token amqp.UUID
}

// sessionWindow is the window that the broker announces. It is so large that
// only link credit limits the client.
const sessionWindow = 1 << 30

func newSession(c *conn, channel uint16, p *amqp.Begin) *session {
	return &session{
		c: c, channel: channel, links: map[uint32]*endpoint{}, unsettled: map[uint32]delivery{},
		nextIncoming: p.NextOutgoing, window: int64(p.IncomingWindow),
	}
}

// handle processes a frame. An error ends the session.
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
	return nil // the connection handles Open, Begin, End and Close
}

// end ends all links of the session.
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
			l.in.credit = 0 // so that grant announces it again
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

// pump resumes sending on every link of the session.
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
		return amqp.Errorf(amqp.CondNotAllowed, "transfer: the client is the receiver of link %q", l.name)
	}
	if !l.ended { // else the client sent it before it received the Detach
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

// disposition applies the outcomes of deliveries that the client reports.
func (s *session) disposition(p amqp.Disposition) {
	if !p.Receiver {
		return // for messages of the client, which the broker settled already
	}
	// The client chooses the range, which may span four billion ids.
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

// settle applies an outcome. It confirms the outcome if the client did not
// settle the delivery itself.
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
	d.l.used = time.Now()
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

// sendFlow sends a flow after it sets the fields of the session.
func (s *session) sendFlow(p amqp.Flow) {
	p.NextIncoming, p.HasNextIncoming, p.IncomingWindow = s.nextIncoming, true, sessionWindow
	p.NextOutgoing, p.OutgoingWindow = s.nextOutgoing, sessionWindow
	send(s, p)
}
