package devbus

import (
	"maps"
	"slices"

	"kennel/internal/dev/devbus/amqp"
)

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
