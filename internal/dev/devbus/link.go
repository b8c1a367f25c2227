package devbus

import (
	"maps"
	"slices"
	"strings"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// endpoint is the broker's end of a link. It holds the fields that links of
// both directions share. Exactly one of in and out is set.
type endpoint struct {
	s      *session
	name   string
	handle uint32
	in     *inlink  // the client sends
	out    *outlink // the client receives

	entity  *entity      // nil for links to $cbs and $management
	maxSize int64        // of a message that the client sends
	address string       // in the form of key
	leave   func()       // undoes the attach; may be nil
	pending *amqp.Attach // the client's Attach, until it is answered
	ended   bool         // nothing more is sent on it
	watched bool         // as a link that keeps its connection, until it is idle
	idle    alarm        // rings when it may have been idle for too long
	used    time.Time
}

// detach ends the link. err is nil if the client requested that. Otherwise the
// client's own Detach will follow.
func (l *endpoint) detach(err *amqp.Error) {
	if l.ended {
		return
	}
	if l.pending != nil {
		// AMQP requires an Attach before the Detach. Without a source or
		// target it refuses the link.
		refused := l.acceptance()
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

// end ends the link without a Detach. Messages that were delivered on it stay
// locked until their locks expire, unless they belong to a Service Bus session.
func (l *endpoint) end() {
	if l.ended {
		return
	}
	l.ended, l.pending = true, nil
	l.unwatch()
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

// path returns the path of the entity or request node of the link.
func (l *endpoint) path() string { return strings.TrimSuffix(l.address, suffixManagement) }

// waits reports whether the client is a receiver of messages, with credit.
func (l *endpoint) waits() bool { return l.out != nil && l.out.q != nil && l.out.credit > 0 }

// conclude ends an operation as its verdict requires. Without a fault it calls
// answer.
func (l *endpoint) conclude(v verdict, answer func()) {
	switch {
	case v.hangUp:
		l.s.c.hangUp(v.reason)
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
	take func(incoming) // receives each complete message

	credit  uint32 // left to the client; topped up before it reaches 0
	count   uint32
	partial *incoming // a message whose last part has not arrived
}

// incoming is a message that the client sends.
type incoming struct {
	id      uint32
	format  uint32
	settled bool
	size    int64 // of the payload, also if it is too large and dropped
	payload []byte
}

// fullCredit is how many messages the client may send before more is granted.
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
	d.settled = d.settled || t.Settled
	if d.size += int64(len(payload)); d.size <= l.maxSize {
		d.payload = append(d.payload, payload...)
	} else {
		d.payload = nil // it is rejected after its last part
	}
	if t.More {
		l.partial = d
		return
	}
	l.count++
	l.credit--
	l.used = time.Now()
	if d.size > l.maxSize {
		l.answer(*d, amqp.Rejected(tooLarge(d.id, d.size, l.maxSize)))
	} else {
		l.take(*d)
	}
	if !l.ended {
		l.grant()
	}
}

var (
	accepted = amqp.Outcome{Code: amqp.CodeAccepted}
	released = amqp.Outcome{Code: amqp.CodeReleased}
	modified = amqp.Outcome{Code: amqp.CodeModified}
)

// answer reports the outcome of a message, unless the client settled it.
func (l *inlink) answer(d incoming, o amqp.Outcome) {
	if !d.settled {
		send(l.s, amqp.Disposition{Receiver: true, First: d.id, Last: d.id, Settled: true, State: o})
	}
}

// destination is an entity that accepts messages.
type destination interface {
	// accept stores all messages or none, and returns their sequence numbers.
	accept([]*content) ([]int64, *amqp.Error)
}

// sendTo directs the link's messages to an entity.
func (l *inlink) sendTo(to destination) {
	b := l.s.c.b
	l.take = func(d incoming) {
		v := b.judge(OnSend, l.entity.path)
		o := accepted
		switch {
		case v.refuse != nil:
			o = amqp.Rejected(v.refuse)
		case v.modify:
			o = modified
		case v.release:
			o = released
		case !v.skip:
			batch, err := l.entity.read(d.format, d.payload)
			if err == nil {
				_, err = to.accept(batch)
			}
			if err != nil {
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
	settled bool // sent messages are settled: receive-and-delete, and replies
	credit  uint32
	count   uint32
	drain   bool // take the rest of the credit back once no message is left

	q       *queue // nil for replies
	group   *group // the Service Bus session whose lock the client holds
	replyTo string // the address that requests name for their replies
	replies [][]byte
}

// open reports whether a message may be sent now.
func (l *outlink) open() bool {
	return !l.ended && l.credit > 0 && l.s.window > 0 && !l.s.c.w.full()
}

// flow applies the credit that the client grants or withdraws.
func (l *outlink) flow(p amqp.Flow) {
	l.used = time.Now()
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
	l.drain = p.Drain
	l.pump()
	if p.Echo && !p.Drain && !l.ended {
		l.announce()
	}
}

func (l *outlink) announce() {
	l.s.sendFlow(amqp.Flow{HasHandle: true, Handle: l.handle, DeliveryCount: l.count, Credit: l.credit, Drain: l.drain})
}

// pump sends the messages or replies that wait for the link. It ends a drain
// unless messages wait for the wire.
func (l *outlink) pump() {
	if l.q != nil {
		l.q.pump()
	}
	for len(l.replies) > 0 && l.open() {
		reply := l.replies[0]
		l.replies = l.replies[1:]
		l.send(deliveryTag(newUUID()), reply)
	}
	if l.drain && !l.ended && (l.credit == 0 || !l.s.c.w.full()) {
		l.count += l.credit
		l.credit = 0
		l.announce()
		l.drain = false
	}
}

// reply sends a reply when the link has credit for it. The client may grant the
// credit after its request.
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

// send sends a message in as many frames as necessary.
func (l *outlink) send(tag, payload []byte) {
	const head = 64 // bytes; no encoded transfer is larger
	t := amqp.Transfer{Handle: l.handle, DeliveryID: l.s.nextDelivery, HasID: true, Tag: tag, Settled: l.settled}
	l.s.nextDelivery++
	l.count++
	l.credit--
	l.used = time.Now()
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

// forget removes the link from its session and its queue.
func (l *outlink) forget() {
	l.s.held = slices.DeleteFunc(l.s.held, func(h heldFrame) bool { return h.l == l })
	maps.DeleteFunc(l.s.unsettled, func(_ uint32, d delivery) bool { return d.l == l })
	if l.q == nil {
		return
	}
	l.q.consumers = slices.DeleteFunc(l.q.consumers, func(o *outlink) bool { return o == l })
	if l.credit > 0 {
		l.q.touch() // a receiver with credit uses the queue until it ends
	}
	if l.group != nil {
		l.group.release(false)
		l.q.pump()
	}
}
