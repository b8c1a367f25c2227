package devbus

import "kennel/internal/dev/devbus/amqp"

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
		if o.Code == amqp.CodeRejected {
			b.stats.Rejected++
		}
		l.conclude(v, func() { l.answer(d, o) })
	}
}
