package devbus

import (
	"errors"
	"maps"
	"net"
	"slices"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// conn is a client's connection. Its goroutines move bytes. Everything else
// happens under Broker.mu.
type conn struct {
	b       *Broker
	w       *wire
	watch   alarm         // rings when the client may have been silent for too long
	beats   alarm         // rings when the next heartbeat is due
	lonely  alarm         // rings when the connection may have had no links for too long
	linked  time.Time     // when it had a link; until its first link, when it was opened
	used    bool          // it has had a link
	every   time.Duration // between heartbeats
	opened  bool
	closed  bool
	peerMax int // the largest frame that the client accepts

	sessions  map[uint16]*session // nil: ended by the broker, but not yet by the client
	claims    map[string]*claim   // by key of their path
	frozenBy  *fault
	cbs       []*endpoint // links to $cbs, at most one in each direction
	listeners []*outlink  // links for replies
}

const (
	// announcedIdle is the idle timeout that the broker announces to clients.
	// It closes a connection after twice that time.
	announcedIdle = 2 * time.Minute
	// maxBeat is the longest interval between heartbeats. SDKs close a
	// connection after 60 s of silence.
	maxBeat = 15 * time.Second
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
	case ok && !c.closed:
		b.log.Warn("client violated the AMQP protocol", "error", broken)
		c.close(broken)
	default:
		c.cut()
	}
	b.mu.Unlock()
	<-pumped

	b.mu.Lock()
	defer b.mu.Unlock()
	if c.w.flooded {
		b.log.Warn("cut a client that does not read", "bytes", maxBacklog)
	}
	b.conns = slices.DeleteFunc(b.conns, func(o *conn) bool { return o == c })
}

// join registers a connection.
func (b *Broker) join(nc net.Conn) (*conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.pick(RefuseDial, "") != nil {
		return nil, net.ErrClosed
	}
	c := &conn{
		b: b, peerMax: amqp.MinMaxFrame, every: maxBeat,
		sessions: map[uint16]*session{}, claims: map[string]*claim{},
	}
	c.w = newWire(nc, c.resume)
	if f := b.pick(BlackHole, ""); f != nil {
		c.freeze(f)
	}
	b.conns = append(b.conns, c)
	b.stats.Connections++
	b.alarms.set(&c.watch, time.Now().Add(2*announcedIdle), ringFunc(c.checkSilence))
	return c, nil
}

// read handles the client's frames until either side ends the connection.
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
			continue // a heartbeat
		}
		c.b.mu.Lock()
		if !c.closed {
			err = c.handle(&f)
		}
		c.b.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

var errNotAMQP = errors.New("the client does not use AMQP 1.0")

// mechanisms are those that the SDKs use. Each succeeds, because clients
// authenticate later, by putting tokens to $cbs.
var mechanisms = amqp.SASLMechanisms{"MSSBCBS", "ANONYMOUS", "EXTERNAL"}

// negotiate agrees on AMQP 1.0, after SASL if the client begins with it.
func (c *conn) negotiate(r *amqp.Reader) error {
	for {
		header, err := r.Header()
		if err != nil {
			return err
		}
		if header != amqp.HeaderSASL {
			c.w.send(func(b []byte) []byte { return append(b, amqp.HeaderAMQP...) })
			if header != amqp.HeaderAMQP {
				return errNotAMQP // the header above names the supported version
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

// handle processes a frame. An error ends the connection.
func (c *conn) handle(f *amqp.Frame) error {
	if f.Kind != amqp.KindAMQP || !c.opened && f.Code != amqp.CodeOpen {
		return amqp.Errorf(amqp.CondNotAllowed, "performative %#02x is not allowed here", f.Code)
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
		return amqp.Errorf(amqp.CondNotAllowed, "performative %#02x arrived on channel %d, which has no session", f.Code, f.Channel)
	}
	if s == nil {
		return nil // the client sent it before it received the End
	}
	if err, ok := errors.AsType[*amqp.Error](s.handle(f)); ok && !c.closed {
		c.b.log.Warn("client violated the AMQP protocol", "error", err)
		s.end()
		c.sessions[f.Channel] = nil
		send(s, amqp.End{Err: err})
	}
	return nil
}

func (c *conn) open(p *amqp.Open) error {
	if c.opened {
		return amqp.Errorf(amqp.CondNotAllowed, "a second Open arrived")
	}
	c.opened = true
	c.peerMax = amqp.MaxFrame
	if p.MaxFrame != 0 {
		c.peerMax = int(min(max(p.MaxFrame, amqp.MinMaxFrame), amqp.MaxFrame))
	}
	if p.Idle > 0 {
		c.every = min(maxBeat, max(p.Idle/2, time.Millisecond))
	}
	c.send(amqp.Open{Container: c.b.namespace, MaxFrame: amqp.MaxFrame, ChannelMax: 4999, Idle: announcedIdle})
	c.beat()
	c.linked = time.Now()
	c.checkLinks()
	return nil
}

func (c *conn) begin(channel uint16, p *amqp.Begin) error {
	if _, taken := c.sessions[channel]; taken {
		return amqp.Errorf(amqp.CondNotAllowed, "Begin arrived on channel %d, which already has a session", channel)
	}
	s := newSession(c, channel, p)
	c.sessions[channel] = s
	send(s, amqp.Begin{RemoteChannel: &channel, IncomingWindow: sessionWindow, OutgoingWindow: sessionWindow, HandleMax: 4999})
	return nil
}

// endSession answers an End, unless the channel has no session. If its caller
// gives up early, go-amqp ends a session without having written its Begin, and
// treats an answer as an error.
func (c *conn) endSession(channel uint16) {
	s := c.sessions[channel]
	delete(c.sessions, channel)
	if s != nil {
		s.end()
		send(s, amqp.End{})
	}
}

// resume continues to send messages after the wire was full.
func (c *conn) resume() {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	for _, channel := range slices.Sorted(maps.Keys(c.sessions)) {
		if s := c.sessions[channel]; s != nil && !c.closed {
			s.pump()
		}
	}
}

func (c *conn) send(p amqp.Performative) {
	c.w.send(func(b []byte) []byte { return amqp.AppendFrame(b, amqp.KindAMQP, 0, p, nil) })
}

// close ends the connection after a Close frame.
func (c *conn) close(err *amqp.Error) {
	c.forget()
	c.send(amqp.Close{Err: err})
	c.w.finish()
}

// hangUp ends the connection with a Close that has an error, or without a Close.
func (c *conn) hangUp(err *amqp.Error) {
	if err != nil && c.opened && !c.closed {
		c.close(err)
	} else {
		c.cut()
	}
}

// cut ends the connection without a Close frame.
func (c *conn) cut() {
	c.forget()
	c.w.cut()
}

// forget ends all sessions and alarms of the connection.
func (c *conn) forget() {
	if c.closed {
		return
	}
	c.closed = true
	c.b.alarms.cancel(&c.watch)
	c.b.alarms.cancel(&c.beats)
	c.b.alarms.cancel(&c.lonely)
	for _, cl := range c.claims {
		c.b.alarms.cancel(&cl.alarm)
	}
	for _, channel := range slices.Sorted(maps.Keys(c.sessions)) {
		if s := c.sessions[channel]; s != nil {
			s.end()
		}
	}
}

// beat sends a heartbeat and schedules the next one.
func (c *conn) beat() {
	if c.b.pick(DropHeartbeats, "") == nil {
		c.w.send(amqp.AppendHeartbeat)
	}
	c.b.alarms.set(&c.beats, time.Now().Add(c.every), ringFunc(c.beat))
}

// checkSilence cuts the connection if the client was silent for too long.
func (c *conn) checkSilence() {
	left := 2*announcedIdle - c.w.silence()
	if left <= 0 {
		c.cut()
		return
	}
	c.b.alarms.set(&c.watch, time.Now().Add(left), ringFunc(c.checkSilence))
}
