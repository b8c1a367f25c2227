package devbus

import (
	"errors"
	"maps"
	"net"
	"slices"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// conn is a client's connection. Its goroutines move bytes; all else happens
// under Broker.mu.
type conn struct {
	b       *Broker
	w       *wire
	watch   alarm // rings when the client may have been silent for too long
	beats   alarm // rings when it is time for a sign of life
	every   time.Duration
	opened  bool
	gone    bool
	peerMax int // the largest frame the client takes

	sessions  map[uint16]*session // nil: ended by the broker, but not yet by the client
	claimed   map[string]bool
	cbs       []*endpoint // links to $cbs: one of each direction at most
	listeners []*outlink  // links for replies
}

const (
	// announcedIdle is how long a client may be silent, as it is told. It is
	// given twice that.
	announcedIdle = 2 * time.Minute
	// longestBeat is the most the broker waits between signs of life. SDKs
	// give up after 60 s of silence.
	longestBeat = 15 * time.Second
)

// serve serves a client's connection until it ends.
func (b *Broker) serve(nc net.Conn) {
	c, err := b.join(nc)
	if err != nil {
		nc.Close()
		return
	}
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		c.w.pump()
	}()
	err = c.read()

	b.mu.Lock()
	broken, ok := errors.AsType[*amqp.Error](err)
	switch {
	case errors.Is(err, errNotAMQP):
		c.forget()
		c.w.finish()
	case ok && !c.gone:
		b.log.Warn("a client broke the protocol", "error", broken)
		c.close(broken)
	default:
		c.cut()
	}
	b.mu.Unlock()
	<-pumped

	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns = slices.DeleteFunc(b.conns, func(o *conn) bool { return o == c })
}

// join makes a connection known.
func (b *Broker) join(nc net.Conn) (*conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.pick(RefuseDial, "") != nil {
		return nil, net.ErrClosed
	}
	c := &conn{
		b: b, w: newWire(nc), peerMax: amqp.MinMaxFrame, every: longestBeat,
		sessions: map[uint16]*session{}, claimed: map[string]bool{},
	}
	if b.pick(BlackHole, "") != nil {
		c.w.freeze()
	}
	b.conns = append(b.conns, c)
	b.stats.Connections++
	b.alarms.set(&c.watch, time.Now().Add(2*announcedIdle), ringFunc(c.checkSilence))
	return c, nil
}

// read handles what the client sends until one of the two has had enough.
func (c *conn) read() error {
	r := amqp.NewReader(c.w)
	if err := c.negotiate(r); err != nil {
		return err
	}
	for {
		f, err := r.Next()
		if err != nil {
			return err
		}
		if f.Code == 0 {
			continue // a sign of life
		}
		c.b.mu.Lock()
		if !c.gone {
			err = c.handle(&f)
		}
		c.b.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

var errNotAMQP = errors.New("the client does not speak AMQP 1.0")

// mechanisms are those of the SDKs. Each succeeds: tokens follow by $cbs.
var mechanisms = amqp.SASLMechanisms{"MSSBCBS", "ANONYMOUS", "EXTERNAL"}

// negotiate agrees on AMQP 1.0, after SASL if the client wants that.
func (c *conn) negotiate(r *amqp.Reader) error {
	for {
		header, err := r.Header()
		if err != nil {
			return err
		}
		if header != amqp.HeaderSASL {
			c.w.send(func(b []byte) []byte { return append(b, amqp.HeaderAMQP...) })
			if header != amqp.HeaderAMQP {
				return errNotAMQP // it has been told what would be
			}
			return nil
		}
		c.w.send(func(b []byte) []byte {
			return amqp.AppendFrame(append(b, amqp.HeaderSASL...), amqp.KindSASL, 0, mechanisms, nil)
		})
		f, err := r.Next()
		if err != nil {
			return err
		}
		if f.Code != amqp.CodeSASLInit {
			return amqp.Errorf(amqp.CondNotAllowed, "expected sasl-init, found performative %#02x", f.Code)
		}
		c.w.send(func(b []byte) []byte { return amqp.AppendFrame(b, amqp.KindSASL, 0, amqp.SASLOutcome{}, nil) })
	}
}

// handle does what a frame says. An error ends the connection.
func (c *conn) handle(f *amqp.Frame) error {
	if f.Kind != amqp.KindAMQP || !c.opened && f.Code != amqp.CodeOpen {
		return amqp.Errorf(amqp.CondNotAllowed, "performative %#02x has no place here", f.Code)
	}
	switch f.Code {
	case amqp.CodeOpen, amqp.CodeBegin:
		body, err := f.Body()
		if err != nil {
			return err
		}
		if p, ok := body.(*amqp.Open); ok {
			return c.open(p)
		}
		return c.begin(f.Channel, body.(*amqp.Begin))
	case amqp.CodeEnd:
		c.endSession(f.Channel)
		return nil
	case amqp.CodeClose:
		c.close(nil)
		return nil
	}
	s, known := c.sessions[f.Channel]
	if !known {
		return amqp.Errorf(amqp.CondNotAllowed, "performative %#02x came on channel %d, which has no session", f.Code, f.Channel)
	}
	if s == nil {
		return nil // sent before the client heard of the end
	}
	if err, ok := errors.AsType[*amqp.Error](s.handle(f)); ok && !c.gone {
		c.b.log.Warn("a client broke the protocol", "error", err)
		s.end()
		c.sessions[f.Channel] = nil
		send(s, amqp.End{Err: err})
	}
	return nil
}

func (c *conn) open(p *amqp.Open) error {
	if c.opened {
		return amqp.Errorf(amqp.CondNotAllowed, "open came twice")
	}
	c.opened = true
	c.peerMax = amqp.MaxFrame
	if p.MaxFrame != 0 {
		c.peerMax = int(min(max(p.MaxFrame, amqp.MinMaxFrame), amqp.MaxFrame))
	}
	if p.Idle > 0 {
		c.every = min(longestBeat, max(p.Idle/2, time.Millisecond))
	}
	c.send(amqp.Open{Container: c.b.namespace, MaxFrame: amqp.MaxFrame, ChannelMax: 4999, Idle: announcedIdle})
	c.beat()
	return nil
}

func (c *conn) begin(channel uint16, p *amqp.Begin) error {
	if _, taken := c.sessions[channel]; taken {
		return amqp.Errorf(amqp.CondNotAllowed, "begin came on channel %d, which has a session", channel)
	}
	s := newSession(c, channel, p)
	c.sessions[channel] = s
	send(s, amqp.Begin{RemoteChannel: &channel, IncomingWindow: broad, OutgoingWindow: broad, HandleMax: 4999})
	return nil
}

// endSession answers an end, but not one without a session: go-amqp ends
// sessions whose begin it never wrote, because the caller had given up, and
// would take an answer for an error.
func (c *conn) endSession(channel uint16) {
	s := c.sessions[channel]
	delete(c.sessions, channel)
	if s != nil {
		s.end()
		send(s, amqp.End{})
	}
}

func (c *conn) send(p amqp.Performative) {
	c.w.send(func(b []byte) []byte { return amqp.AppendFrame(b, amqp.KindAMQP, 0, p, nil) })
}

// close ends the connection politely.
func (c *conn) close(err *amqp.Error) {
	c.forget()
	c.send(amqp.Close{Err: err})
	c.w.finish()
}

// cut ends the connection without a word.
func (c *conn) cut() {
	c.forget()
	c.w.cut()
}

// forget ends all that the connection carries.
func (c *conn) forget() {
	if c.gone {
		return
	}
	c.gone = true
	c.b.alarms.cancel(&c.watch)
	c.b.alarms.cancel(&c.beats)
	for _, channel := range slices.Sorted(maps.Keys(c.sessions)) {
		if s := c.sessions[channel]; s != nil {
			s.end()
		}
	}
}

// beat shows a sign of life, now and then.
func (c *conn) beat() {
	if c.b.pick(DropHeartbeats, "") == nil {
		c.w.send(amqp.AppendHeartbeat)
	}
	c.b.alarms.set(&c.beats, time.Now().Add(c.every), ringFunc(c.beat))
}

// checkSilence drops a client that nothing was heard of.
func (c *conn) checkSilence() {
	left := 2*announcedIdle - c.w.silence()
	if left <= 0 {
		c.cut()
		return
	}
	c.b.alarms.set(&c.watch, time.Now().Add(left), ringFunc(c.checkSilence))
}
