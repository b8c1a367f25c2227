package devbus

import (
	"maps"
	"slices"

	"kennel/internal/dev/devbus/amqp"
)

// endpoint is the broker's end of a link: what links of both directions have
// in common. Exactly one of in and out is set.
type endpoint struct {
	s      *session
	name   string
	handle uint32
	in     *inlink  // the client sends
	out    *outlink // the client receives

	entity  *entity      // nil for links to $cbs and $management
	leave   func()       // undoes what attaching did
	pending *amqp.Attach // the client's, if it was not answered yet
	ended   bool         // nothing is sent on it any more
}

// detach ends the link, with an error unless the client wanted it so. The
// client's own detach is still to come, or was the reason.
func (l *endpoint) detach(err *amqp.Error) {
	if l.ended {
		return
	}
	if l.pending != nil {
		// A link must be attached to be detached, if only to nothing.
		refused := answerTo(l.pending)
		if refused.Receiver {
			refused.Target = nil
		} else {
			refused.Source = nil
		}
		send(l.s, refused)
	}
	l.end()
	send(l.s, amqp.Detach{Handle: l.handle, Err: err})
}

// end forgets the link without a word to the client. Messages that are out on
// it stay locked until their locks run out, unless they belong to a session.
func (l *endpoint) end() {
	if l.ended {
		return
	}
	l.ended, l.pending = true, nil
	if l.entity != nil {
		l.entity.links = slices.DeleteFunc(l.entity.links, func(o *endpoint) bool { return o == l })
	}
	if l.out != nil {
		l.out.forget()
	}
	if l.leave != nil {
		l.leave()
	}
}

// waits reports whether a receiver is asking for messages.
func (l *endpoint) waits() bool { return l.out != nil && l.out.credit > 0 }

// conclude ends an operation the way a verdict wants it: normally with its
// answer.
func (l *endpoint) conclude(v verdict, answer func()) {
	switch {
	case v.hangUp:
		l.s.c.cut()
	case v.detach != nil:
		l.detach(v.detach)
	case v.silent:
	case v.delay > 0:
		l.s.c.b.alarms.after(v.delay, func() {
			if !l.ended {
				answer()
			}
		})
	case !l.ended:
		answer()
	}
}

// inlink is a link on which the client sends: messages to an entity, or
// requests.
type inlink struct {
	endpoint
	take func(incoming) // is handed each message when it is complete

	credit  uint32 // never 0: it is granted as it is used
	count   uint32
	partial *incoming // begun, and to be continued
}

// incoming is a message on its way in.
type incoming struct {
	id      uint32
	format  uint32
	settled bool
	payload []byte
}

// fullCredit is what the client may send before more is granted.
const fullCredit = 1000

// grant tops up the client's credit when half of it is used.
func (l *inlink) grant() {
	if l.credit > fullCredit/2 {
		return
	}
	l.credit = fullCredit
	l.s.sendFlow(amqp.Flow{HasHandle: true, Handle: l.handle, DeliveryCount: l.count, Credit: l.credit})
}

func (l *inlink) transfer(t amqp.Transfer, payload []byte) {
	d := l.partial
	l.partial = nil
	if d == nil {
		if !t.HasID {
			l.detach(amqp.Errorf(amqp.CondNotAllowed, "the first transfer of a delivery has no delivery-id"))
			return
		}
		d = &incoming{id: t.DeliveryID, format: t.Format}
	}
	if t.Aborted {
		return
	}
	if len(d.payload)+len(payload) > maxMessage {
		l.detach(amqp.Errorf(amqp.CondMessageSize, "The received message exceeds the limit of %d bytes on the link.", maxMessage))
		return
	}
	d.settled = d.settled || t.Settled
	d.payload = append(d.payload, payload...)
	if t.More {
		l.partial = d
		return
	}
	l.count++
	l.credit--
	l.take(*d)
	if !l.ended {
		l.grant()
	}
}

var (
	accepted = amqp.Outcome{Code: amqp.CodeAccepted}
	released = amqp.Outcome{Code: amqp.CodeReleased}
)

// answer reports what became of a message.
func (l *inlink) answer(d incoming, o amqp.Outcome) {
	if !d.settled {
		send(l.s, amqp.Disposition{Receiver: true, First: d.id, Last: d.id, Settled: true, State: o})
	}
}

// destination is an entity that can be sent to.
type destination interface {
	// accept takes in all messages or none, and returns their numbers.
	accept([]*content) ([]int64, *amqp.Error)
}

// sendTo has the link's messages go to an entity.
func (l *inlink) sendTo(to destination) {
	b := l.s.c.b
	l.take = func(d incoming) {
		v := b.judge(OnSend, l.entity.path)
		o := accepted
		switch {
		case v.refuse != nil:
			o = amqp.Rejected(v.refuse)
		case v.release:
			o = released
		case !v.skip:
			batch, err := parseTransfer(d.format, d.payload)
			if err != nil {
				o = amqp.Rejected(amqp.Errorf(amqp.CondDecodeError, "%v", err))
			} else if _, err := to.accept(batch); err != nil {
				o = amqp.Rejected(err)
			}
		}
		l.conclude(v, func() { l.answer(d, o) })
	}
}

// outlink is a link on which the client receives: messages of a queue, or
// replies.
type outlink struct {
	endpoint
	settled bool // what is sent is gone: receive-and-delete, and replies
	credit  uint32
	count   uint32

	q       *queue // nil if it is for replies
	group   *group // the session whose lock the client holds
	replyTo string // the address clients ask replies to be sent to
	replies [][]byte
}

// open reports whether a message may be sent.
func (l *outlink) open() bool {
	return !l.ended && l.credit > 0 && l.s.window > 0
}

// flow is the client granting credit, or wanting it back.
func (l *outlink) flow(p amqp.Flow) {
	l.credit = p.DeliveryCount + p.Credit - l.count
	if int32(l.credit) < 0 {
		l.credit = 0
	}
	if l.q != nil && l.credit > 0 {
		l.q.touch()
		if v := l.s.c.b.judge(onReceive, l.q.path); v.detach != nil {
			l.detach(v.detach)
			return
		}
	}
	l.pump()
	if l.ended {
		return
	}
	if p.Drain {
		l.count += l.credit
		l.credit = 0
	}
	if p.Drain || p.Echo {
		l.s.sendFlow(amqp.Flow{HasHandle: true, Handle: l.handle, DeliveryCount: l.count, Credit: l.credit, Drain: p.Drain})
	}
}

// pump sends what waits for the link.
func (l *outlink) pump() {
	if l.q != nil {
		l.q.pump()
		return
	}
	for len(l.replies) > 0 && l.open() {
		reply := l.replies[0]
		l.replies = l.replies[1:]
		l.send(deliveryTag(newUUID()), reply)
	}
}

// reply sends a reply as soon as there is credit for it, which the client may
// grant after its request.
func (l *outlink) reply(payload []byte) {
	l.replies = append(l.replies, payload)
	l.pump()
}

// deliver sends a message of the queue.
func (l *outlink) deliver(m *message, payload []byte) {
	if !l.settled {
		l.s.unsettled[l.s.nextDelivery] = delivery{l, m.q, m.token}
	}
	l.send(deliveryTag(m.token), payload)
}

// send sends a message in as many frames as it takes.
func (l *outlink) send(tag, payload []byte) {
	const head = 64 // more than a transfer ever takes
	t := amqp.Transfer{Handle: l.handle, DeliveryID: l.s.nextDelivery, HasID: true, Tag: tag, Settled: l.settled}
	l.s.nextDelivery++
	l.count++
	l.credit--
	for room := l.s.c.peerMax - head; ; t.HasID = false {
		n := min(room, len(payload))
		t.More = n < len(payload)
		l.s.sendTransfer(l, t, payload[:n])
		payload = payload[n:]
		if !t.More {
			return
		}
	}
}

// forget drops what the session keeps for the link, and what the queue does.
func (l *outlink) forget() {
	l.s.held = slices.DeleteFunc(l.s.held, func(h heldFrame) bool { return h.l == l })
	maps.DeleteFunc(l.s.unsettled, func(_ uint32, d delivery) bool { return d.l == l })
	if l.q == nil {
		return
	}
	l.q.consumers = slices.DeleteFunc(l.q.consumers, func(o *outlink) bool { return o == l })
	if l.credit > 0 {
		l.q.touch() // it used the queue until now
	}
	if l.group != nil {
		l.group.release(false)
		l.q.pump()
	}
}
