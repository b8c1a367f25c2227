package devbus

import (
	"bytes"
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// Clients that break the rules of the protocol are told so, and nobody else
// notices.
func TestProtocolViolations(t *testing.T) {
	for _, tt := range []struct {
		name      string
		do        func(*rawClient)
		ends      uint64 // the performative that ends whatever was broken
		condition string
	}{
		{"a frame too large", func(c *rawClient) { c.write([]byte{0, 2, 0, 0, 2, 0, 0, 0}) }, codeClose, condFraming},
		{"a frame smaller than its header", func(c *rawClient) { c.write([]byte{0, 0, 0, 7, 2, 0, 0, 0}) }, codeClose, condFraming},
		{"a body that begins behind the end", func(c *rawClient) { c.write([]byte{0, 0, 0, 8, 9, 0, 0, 0}) }, codeClose, condFraming},
		{"a body of nonsense", func(c *rawClient) { c.write([]byte{0, 0, 0, 10, 2, 0, 0, 0, 0xff, 0xff}) }, codeClose, condDecodeError},
		{"a field of the wrong type", func(c *rawClient) { c.send(rawBody(codeFlow, "x")) }, codeEnd, condDecodeError},
		{"an unknown performative", func(c *rawClient) { c.send(rawBody(0x33)) }, codeEnd, condNotAllowed},
		{"SASL after the handshake", func(c *rawClient) { c.write(appendFrame(nil, frameSASL, 0, rawBody(codeSASLInit), nil)) }, codeClose, condNotAllowed},
		{"open twice", func(c *rawClient) { c.send(openFrame{}) }, codeClose, condNotAllowed},
		{"begin twice", func(c *rawClient) { c.send(rawBegin{}) }, codeClose, condNotAllowed},
		{"a channel without a session", func(c *rawClient) { c.write(appendFrame(nil, frameAMQP, 5, rawFlow{}, nil)) }, codeClose, condNotAllowed},
		{"a flow of no link", func(c *rawClient) { c.send(rawFlow{handle: 3}) }, codeEnd, condUnattached},
		{"a transfer of no link", func(c *rawClient) { c.transfer(3, 0, dataMessage(1)) }, codeEnd, condUnattached},
		{"a detach of no link", func(c *rawClient) { c.send(detachFrame{handle: 3}) }, codeEnd, condUnattached},
		{"a handle in use", func(c *rawClient) {
			c.claim("q")
			c.attach("a", 1, false, "", "q")
			c.attach("b", 1, false, "", "q")
		}, codeEnd, condHandleInUse},
		{"a transfer on a link for receiving", func(c *rawClient) {
			c.claim("q")
			c.attach("a", 1, true, "q", "")
			c.transfer(1, 0, dataMessage(1))
		}, codeEnd, condNotAllowed},
		{"no token", func(c *rawClient) { c.attach("a", 1, false, "", "q") }, codeDetach, condUnauthorized},
		{"a token for something else", func(c *rawClient) {
			c.claim("qq")
			c.attach("a", 1, false, "", "q")
		}, codeDetach, condUnauthorized},
		{"a second link to $cbs", func(c *rawClient) {
			c.claim("q")
			c.attach("cbs-too", 1, false, "", addressCBS)
		}, codeDetach, condNotAllowed},
		{"sending to dead letters", func(c *rawClient) {
			c.claim("q")
			c.attach("a", 1, false, "", "q/$DeadLetterQueue")
		}, codeDetach, condNotAllowed},
		{"transactions", func(c *rawClient) {
			coordinator := described{uint64(codeCoordinator), []any{[]symbol{"amqp:local-transactions"}}}
			c.send(rawBody(codeAttach, "tx", uint32(1), false, nil, nil, described{uint64(codeSource), []any{}}, coordinator))
		}, codeDetach, condNotImplemented},
		{"no delivery-id", func(c *rawClient) {
			c.sender()
			c.sendWith(transferFrame{handle: 1}, dataMessage(1))
		}, codeDetach, condNotAllowed},
		{"a message too large", func(c *rawClient) {
			c.sender()
			part := dataMessage(60_000)
			for range 5 {
				c.sendWith(transferFrame{handle: 1, hasID: true, more: true}, part)
			}
		}, codeDetach, condMessageSize},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
				tt.do(c)
				c.wantError(tt.ends, tt.condition)
				if tt.ends == codeClose {
					c.wantEnd()
				}
				want := map[bool]int{true: 0, false: 1}[tt.ends == codeClose]
				if got := b.Connections(); got != want {
					t.Errorf("%d connections are left, want %d", got, want)
				}
			})
		})
	}
}

func TestMessagesThatCannotBeUnderstoodAreRejected(t *testing.T) {
	id := func(v any) []byte { return appendValue(nil, described{uint64(sectionProperties), []any{v}}) }
	for name, payload := range map[string][]byte{
		"no section":              {1, 2, 3},
		"cut short":               dataMessage(10)[:8],
		"unknown section":         appendValue(nil, described{uint64(0x99), "x"}),
		"message-id of no type":   id([]any{"x"}),
		"properties not a list":   appendValue(nil, described{uint64(sectionProperties), "x"}),
		"annotations not a map":   appendValue(nil, described{uint64(sectionAnnotations), "x"}),
		"app properties: odd map": append(appendDescriptor(nil, sectionApplication), ctorMap8, 2, 1, ctorNull),
	} {
		inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
			c.sender()
			c.transfer(1, 0, payload)
			f := c.want(codeDisposition)
			var d dispositionFrame
			d.read(&f.fields)
			if d.state.code != codeRejected || d.state.err == nil || d.state.err.Condition != condDecodeError {
				t.Errorf("%s: got outcome %+v, want it rejected", name, d.state)
			}
		})
	}
}

// sender attaches handle 1 to q, with a token.
func (c *rawClient) sender() {
	c.t.Helper()
	c.claim("q")
	c.attach("sender", 1, false, "", "q")
	c.want(codeAttach)
	c.want(codeFlow)
}

// receiver attaches handle 2 to q for peek-lock, with a token already put.
func (c *rawClient) receiver() {
	c.t.Helper()
	c.attach("receiver", 2, true, "q", "")
	c.want(codeAttach)
}

func TestHandshakeWithSomethingElse(t *testing.T) {
	for _, hello := range []string{"GET / HTTP/1.1\r\n\r\n", "AMQP\x02\x01\x00\x00", "AMQP\x00\x00\x09\x01"} {
		synctest.Test(t, func(t *testing.T) {
			b := New(nil)
			defer b.Close()
			c := dialRaw(t, b)
			defer c.nc.Close()
			go c.nc.Write([]byte(hello))
			if h, err := c.r.header(); h != headerAMQP || err != nil {
				t.Errorf("after %q got header %q, error %v, want to hear what is spoken here", hello, h, err)
			}
			c.wantEnd()
		})
	}
}

// The answer to an attach repeats what the client asked for, in its other role.
func TestAttachIsAnswered(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, _ *Broker, c *rawClient) {
		c.claim("q")
		for _, receives := range []bool{false, true} {
			settleSecond := uint8(1)
			c.send(attachFrame{
				name: "a link", handle: 7, receives: receives, settleMode: &settleSecond,
				source: terminus{true, "Q"}, target: terminus{true, "Q"},
			})
			f := c.want(codeAttach)
			var p attachFrame
			count := f.fields
			p.read(&f.fields)
			for range 9 { // name … incomplete-unsettled
				count.next()
			}
			if _, present := count.maybeUint(); present != receives {
				t.Errorf("initial-delivery-count is there %v, want it from who sends", present)
			}
			if p.name != "a link" || p.handle != 7 || p.receives == receives || p.sendMode != nil || *p.settleMode != 1 ||
				p.source.address != "Q" || p.target.address != "Q" {
				t.Errorf("got %+v", p)
			}
			c.send(detachFrame{handle: 7})
			for f.code != codeDetach {
				f = c.next()
			}
		}
	})
}

// An answer that is late is not given when its link is gone: SDKs end their
// session over it.
func TestLateAnswerToALinkThatIsGone(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		c.sender()
		b.Fail(Fault{Kind: Slow, Delay: time.Minute})
		c.transfer(1, 1, dataMessage(1))
		c.send(detachFrame{handle: 1})
		c.want(codeDetach)
		time.Sleep(2 * time.Minute)
		c.send(closeFrame{})
		c.want(codeClose) // and nothing before it
	})
}

// An end without a session is passed over in silence.
func TestEndWithoutSession(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, _ *Broker, c *rawClient) {
		c.write(appendFrame(nil, frameAMQP, 5, endFrame{}, nil))
		c.send(endFrame{})
		c.want(codeEnd)
		c.send(closeFrame{})
		c.want(codeClose)
		c.wantEnd()
	})
}

// The window of a session bounds the frames on their way to the client, also
// in the middle of a message.
func TestSessionWindow(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		c.sender()
		c.receiver()
		large := dataMessage(150_000)
		for id := uint32(1); id < 3; id++ {
			for rest := large; ; {
				n := min(len(rest), 60_000)
				c.sendWith(transferFrame{handle: 1, deliveryID: id, hasID: true, more: n < len(rest)}, rest[:n])
				if rest = rest[n:]; len(rest) == 0 {
					break
				}
			}
			c.want(codeDisposition)
		}
		// The reply to put-token was transfer 0.
		var got []byte
		frames := 0
		for next := uint32(1); frames < 6; next += 2 {
			c.send(rawFlow{next: next, window: 2, handle: 2, credit: 2})
			for range 2 {
				got = append(got, c.want(codeTransfer).payload...)
				frames++
			}
			synctest.Wait()
			c.nc.SetReadDeadline(time.Now().Add(time.Second))
			if f, err := c.r.next(); err == nil && f.code == codeTransfer {
				t.Fatal("a transfer came although the window was shut")
			}
			c.nc.SetReadDeadline(time.Time{})
		}
		if n := bytes.Count(got, large[:8]); n != 2 {
			t.Errorf("%d messages arrived whole, want 2", n)
		}
	})
}

func TestDrainAndEcho(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		c.claim("q")
		c.receiver()
		flow := func() (p flowFrame) {
			f := c.want(codeFlow)
			p.read(&f.fields)
			return p
		}
		c.send(rawFlow{next: 1, window: 100, handle: 2, credit: 10, echo: true})
		if p := flow(); p.credit != 10 || p.deliveryCount != 0 {
			t.Errorf("echoed credit %d, count %d, want 10 and 0", p.credit, p.deliveryCount)
		}
		c.attach("sender", 1, false, "", "q")
		c.want(codeAttach)
		flow()
		c.send(rawFlow{next: 1, window: 100, handle: 1, echo: true})
		if p := flow(); p.credit != fullCredit {
			t.Errorf("a sender that asks is told of credit %d, want %d", p.credit, fullCredit)
		}
		c.send(rawFlow{next: 1, window: 100, handle: 2, credit: 10, drain: true})
		if p := flow(); p.credit != 0 || p.deliveryCount != 10 || !p.drain {
			t.Errorf("drained to credit %d, count %d, want 0 and 10", p.credit, p.deliveryCount)
		}
	})
}

// A disposition may name four billion deliveries.
func TestDispositionOfEverything(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		c.sender()
		c.receiver()
		for id := range uint32(3) {
			c.transfer(1, id+1, dataMessage(1))
			c.want(codeDisposition)
		}
		c.send(rawFlow{next: 1, window: 100, handle: 2, credit: 3})
		for range 3 {
			c.want(codeTransfer)
		}
		c.send(dispositionFrame{receives: true, first: 0, last: 1<<32 - 1, state: accepted})
		for range 3 {
			c.want(codeDisposition)
		}
		if n, _ := b.Counts("q"); n != (Counts{}) {
			t.Errorf("left are %+v", n)
		}
	})
}

// A client of which nothing is heard is dropped.
func TestSilentClientIsDropped(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		done := make(chan struct{})
		go func() { c.wantEnd(); close(done) }()
		start := time.Now()
		<-done
		if took := time.Since(start); took != 2*announcedIdle {
			t.Errorf("it was dropped after %v, want %v", took, 2*announcedIdle)
		}
	})
}

// Serve ends with its context even if its connections are frozen.
func TestServeEnds(t *testing.T) {
	b := New(nil)
	defer b.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- b.Serve(ctx, ln) }()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := &rawClient{t: t, nc: nc, r: newFrameReader(nc)}
	c.handshake()
	b.Fail(Fault{Kind: Freeze})
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve returned %v", err)
	}
	c.wantEnd()

	// While dialling is refused, a listener resets at once; and a closed
	// broker does not begin to serve.
	b.Fail(Fault{Kind: RefuseDial})
	if ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	go func() { served <- b.Serve(context.Background(), ln) }()
	refused, err := net.Dial("tcp", ln.Addr().String())
	if err == nil {
		_, err = refused.Read(make([]byte, 1))
		refused.Close()
	}
	if err == nil {
		t.Error("a connection works although dialling is refused")
	}
	b.Close()
	if err := <-served; err != nil {
		t.Errorf("Serve returned %v when the broker was closed", err)
	}
	if ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if err := b.Serve(t.Context(), ln); err != nil {
		t.Errorf("Serve of a closed broker returned %v", err)
	}
}

// After Close, nothing is left, and nobody gets in.
func TestClose(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		b.Fail(Fault{Kind: Freeze}) // even a frozen connection ends
		b.Close()
		if _, err := c.nc.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is still open")
		}
		if _, err := b.Dial().Write([]byte{0}); err == nil {
			t.Error("a new connection works")
		}
		b.Close() // again does no harm
	})
}
