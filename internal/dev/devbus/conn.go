package devbus

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"time"
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

// serve looks after a client's connection until it ends, or ctx does.
func (b *Broker) serve(ctx context.Context, nc net.Conn) {
	c, err := b.join(nc)
	if err != nil {
		if tcp, ok := nc.(*net.TCPConn); ok {
			tcp.SetLinger(0) // a reset is as near as a listener comes to refusing
		}
		nc.Close()
		return
	}
	defer context.AfterFunc(ctx, c.w.kill)()
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		c.w.pump()
	}()
	err = c.read()

	b.mu.Lock()
	broken, ok := errors.AsType[*amqpError](err)
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
		b: b, w: newWire(nc), peerMax: minMaxFrame, every: longestBeat,
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
	r := newFrameReader(c.w)
	if err := c.negotiate(r); err != nil {
		return err
	}
	for {
		f, err := r.next()
		if err != nil {
			return err
		}
		if f.code == 0 {
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

// negotiate agrees on AMQP 1.0, after SASL if the client wants that.
func (c *conn) negotiate(r *frameReader) error {
	for {
		header, err := r.header()
		if err != nil {
			return err
		}
		if header != headerSASL {
			c.w.send(func(b []byte) []byte { return append(b, headerAMQP[:]...) })
			if header != headerAMQP {
				return errNotAMQP // it has been told what would be
			}
			return nil
		}
		c.w.send(func(b []byte) []byte {
			return appendFrame(append(b, headerSASL[:]...), frameSASL, 0, saslMechanisms{}, nil)
		})
		f, err := r.next()
		if err != nil {
			return err
		}
		if f.code != codeSASLInit {
			return refusal(condNotAllowed, "expected sasl-init, found performative %#02x", f.code)
		}
		c.w.send(func(b []byte) []byte { return appendFrame(b, frameSASL, 0, saslOutcome{}, nil) })
	}
}

// handle does what a frame says. An error ends the connection.
func (c *conn) handle(f *frame) error {
	if f.kind != frameAMQP || !c.opened && f.code != codeOpen {
		return refusal(condNotAllowed, "performative %#02x has no place here", f.code)
	}
	switch f.code {
	case codeOpen:
		return c.open(f)
	case codeBegin:
		return c.begin(f)
	case codeEnd:
		c.endSession(f.channel)
		return nil
	case codeClose:
		c.close(nil)
		return nil
	}
	s, known := c.sessions[f.channel]
	if !known {
		return refusal(condNotAllowed, "performative %#02x came on channel %d, which has no session", f.code, f.channel)
	}
	if s == nil {
		return nil // sent before the client heard of the end
	}
	if err, ok := errors.AsType[*amqpError](s.handle(f)); ok && !c.gone {
		c.b.log.Warn("a client broke the protocol", "error", err)
		s.end()
		c.sessions[f.channel] = nil
		send(s, endFrame{err})
	}
	return nil
}

func (c *conn) open(f *frame) error {
	var p openFrame
	if err := readBody(f, &p, "open"); err != nil {
		return err
	}
	if c.opened {
		return refusal(condNotAllowed, "open came twice")
	}
	c.opened = true
	c.peerMax = maxFrame
	if p.maxFrame != 0 {
		c.peerMax = int(min(max(p.maxFrame, minMaxFrame), maxFrame))
	}
	if p.idle > 0 {
		c.every = min(longestBeat, max(p.idle/2, time.Millisecond))
	}
	c.send(openFrame{container: c.b.namespace, maxFrame: maxFrame, channelMax: 4999, idle: announcedIdle})
	c.beat()
	return nil
}

func (c *conn) begin(f *frame) error {
	var p beginFrame
	if err := readBody(f, &p, "begin"); err != nil {
		return err
	}
	if _, taken := c.sessions[f.channel]; taken {
		return refusal(condNotAllowed, "begin came on channel %d, which has a session", f.channel)
	}
	s := newSession(c, f.channel, &p)
	c.sessions[f.channel] = s
	send(s, beginFrame{remoteChannel: f.channel, incomingWindow: broad, outgoingWindow: broad, handleMax: 4999})
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
		send(s, endFrame{})
	}
}

func (c *conn) send(p body) {
	c.w.send(func(b []byte) []byte { return appendFrame(b, frameAMQP, 0, p, nil) })
}

// close ends the connection politely.
func (c *conn) close(err *amqpError) {
	c.forget()
	c.send(closeFrame{err})
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
		c.w.send(func(b []byte) []byte { return append(b, emptyFrame...) })
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
