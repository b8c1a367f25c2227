package devbus

import (
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
