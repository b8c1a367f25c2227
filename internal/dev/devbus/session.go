package devbus

import (
	"maps"
	"slices"
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
	t       transferFrame
	payload []byte
}

// delivery is a message out with a client, which is to say what became of it.
type delivery struct {
	l     *outlink
	q     *queue
	token uuid
}

// broad is the window the broker offers: clients are held back by credit.
const broad = 1 << 30

func newSession(c *conn, channel uint16, p *beginFrame) *session {
	return &session{
		c: c, channel: channel, links: map[uint32]*endpoint{}, unsettled: map[uint32]delivery{},
		nextIncoming: p.nextOutgoing, window: int64(p.incomingWindow),
	}
}

// handle does what a frame says. An error ends the session.
func (s *session) handle(f *frame) error {
	switch f.code {
	case codeAttach:
		var p attachFrame
		if err := readBody(f, &p, "attach"); err != nil {
			return err
		}
		return s.attach(p)
	case codeFlow:
		var p flowFrame
		if err := readBody(f, &p, "flow"); err != nil {
			return err
		}
		return s.flow(p)
	case codeTransfer:
		var p transferFrame
		if err := readBody(f, &p, "transfer"); err != nil {
			return err
		}
		return s.transfer(p, f.payload)
	case codeDisposition:
		var p dispositionFrame
		if err := readBody(f, &p, "disposition"); err != nil {
			return err
		}
		s.disposition(p)
		return nil
	case codeDetach:
		var p detachFrame
		if err := readBody(f, &p, "detach"); err != nil {
			return err
		}
		return s.detach(p.handle)
	}
	return refusal(condNotAllowed, "performative %#02x has no place in a session", f.code)
}

// end forgets the session and all that hangs on it.
func (s *session) end() {
	for _, handle := range slices.Sorted(maps.Keys(s.links)) {
		s.links[handle].end()
	}
	clear(s.links)
}

func (s *session) flow(p flowFrame) error {
	wasShut := s.window <= 0
	if p.hasNextIncoming {
		s.window = int64(int32(p.nextIncoming + p.incomingWindow - s.nextOutgoing))
	}
	s.flush()
	if p.hasHandle {
		l := s.links[p.handle]
		if l == nil {
			return refusal(condUnattached, "flow: handle %d is not attached", p.handle)
		}
		switch {
		case l.ended:
		case l.out != nil:
			l.out.flow(p)
		case p.echo:
			l.in.credit = 0 // so that it is granted, and told, again
			l.in.grant()
		}
	} else if p.echo {
		s.sendFlow(flowFrame{})
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

func (s *session) transfer(p transferFrame, payload []byte) error {
	s.nextIncoming++
	l := s.links[p.handle]
	if l == nil {
		return refusal(condUnattached, "transfer: handle %d is not attached", p.handle)
	}
	if l.in == nil {
		return refusal(condNotAllowed, "transfer: the client receives on link %q", l.name)
	}
	if !l.ended { // else it was sent before the client heard of the end
		l.in.transfer(p, payload)
	}
	return nil
}

func (s *session) detach(handle uint32) error {
	l := s.links[handle]
	if l == nil {
		return refusal(condUnattached, "detach: handle %d is not attached", handle)
	}
	l.detach(nil)
	delete(s.links, handle)
	return nil
}

// sendTransfer sends a part of a message, or holds it back until the client's
// window has room.
func (s *session) sendTransfer(l *outlink, t transferFrame, payload []byte) {
	if s.window <= 0 || len(s.held) > 0 {
		s.held = append(s.held, heldFrame{l, t, slices.Clone(payload)})
		return
	}
	s.window--
	s.nextOutgoing++
	s.c.w.send(func(b []byte) []byte { return appendFrame(b, frameAMQP, s.channel, t, payload) })
}

func (s *session) flush() {
	held := s.held
	s.held = nil
	for _, h := range held {
		s.sendTransfer(h.l, h.t, h.payload)
	}
}

// disposition is the client saying what became of deliveries.
func (s *session) disposition(p dispositionFrame) {
	if !p.receives {
		return // about what it sent: the broker has settled all that already
	}
	// The range is the client's word, and may span four billion.
	var ids []uint32
	if span := p.last - p.first; uint64(span) < uint64(len(s.unsettled)) {
		for i := uint32(0); i <= span; i++ {
			ids = append(ids, p.first+i)
		}
	} else {
		for id := range s.unsettled {
			if id-p.first <= span {
				ids = append(ids, id)
			}
		}
		slices.SortFunc(ids, func(a, b uint32) int { return int(int64(a-p.first) - int64(b-p.first)) })
	}
	for _, id := range ids {
		if d, ok := s.unsettled[id]; ok {
			s.settle(id, d, p)
		}
	}
}

// settle applies an outcome, and confirms it if the client asked for that by
// not settling itself.
func (s *session) settle(id uint32, d delivery, p dispositionFrame) {
	if p.state.code == 0 && !p.settled || p.state.code == codeReceived {
		return // an interim state
	}
	o := p.state
	if o.code == 0 {
		o = released // settled without an outcome
	}
	v := s.c.b.judge(OnSettle, d.q.path)
	confirmed := outcome{code: o.code}
	switch {
	case v.refuse != nil:
		confirmed = rejected(v.refuse)
	case v.release:
		confirmed = released
	}
	if !v.skip {
		if err := d.q.settle(d.token, o); err != nil {
			confirmed = rejected(err)
		}
		d.q.pump()
	}
	delete(s.unsettled, id)
	d.l.conclude(v, func() {
		if !p.settled {
			send(s, dispositionFrame{first: id, last: id, settled: true, state: confirmed})
		}
	})
}

// send sends a performative on the session.
func send[B body](s *session, p B) {
	s.c.w.send(func(b []byte) []byte { return appendFrame(b, frameAMQP, s.channel, p, nil) })
}

// sendFlow completes a flow with what the session knows.
func (s *session) sendFlow(p flowFrame) {
	p.nextIncoming, p.incomingWindow = s.nextIncoming, broad
	p.nextOutgoing, p.outgoingWindow = s.nextOutgoing, broad
	send(s, p)
}
