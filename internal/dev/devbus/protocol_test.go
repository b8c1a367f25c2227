package devbus

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/dev/devbus/amqp"
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
		{"a frame too large", func(c *rawClient) { c.write([]byte{0, 2, 0, 0, 2, 0, 0, 0}) }, amqp.CodeClose, amqp.CondFraming},
		{"a body of an unknown type", func(c *rawClient) { c.write([]byte{0, 0, 0, 10, 2, 0, 0, 0, 0xff, 0xff}) }, amqp.CodeClose, amqp.CondDecodeError},
		{"a field of the wrong type", func(c *rawClient) { c.send(anyBody{amqp.CodeFlow, []any{"x"}}) }, amqp.CodeEnd, amqp.CondDecodeError},
		{"an unknown performative", func(c *rawClient) { c.send(anyBody{code: 0x33}) }, amqp.CodeEnd, amqp.CondNotAllowed},
		{"SASL after the handshake", func(c *rawClient) {
			c.write(amqp.AppendFrame(nil, amqp.KindSASL, 0, anyBody{code: amqp.CodeSASLInit}, nil))
		}, amqp.CodeClose, amqp.CondNotAllowed},
		{"open twice", func(c *rawClient) { c.send(amqp.Open{}) }, amqp.CodeClose, amqp.CondNotAllowed},
		{"begin twice", func(c *rawClient) { c.send(amqp.Begin{}) }, amqp.CodeClose, amqp.CondNotAllowed},
		{"a channel without a session", func(c *rawClient) { c.write(amqp.AppendFrame(nil, amqp.KindAMQP, 5, amqp.Flow{}, nil)) }, amqp.CodeClose, amqp.CondNotAllowed},
		{"a flow of no link", func(c *rawClient) { c.send(credit(3, 1)) }, amqp.CodeEnd, amqp.CondUnattached},
		{"a transfer of no link", func(c *rawClient) { c.transfer(3, 0, dataMessage(1)) }, amqp.CodeEnd, amqp.CondUnattached},
		{"a detach of no link", func(c *rawClient) { c.send(amqp.Detach{Handle: 3}) }, amqp.CodeEnd, amqp.CondUnattached},
		{"a handle in use", func(c *rawClient) {
			c.claim("q")
			c.attach("a", 1, false, "", "q")
			c.attach("b", 1, false, "", "q")
		}, amqp.CodeEnd, amqp.CondHandleInUse},
		{"a transfer on a link for receiving", func(c *rawClient) {
			c.claim("q")
			c.attach("a", 1, true, "q", "")
			c.transfer(1, 0, dataMessage(1))
		}, amqp.CodeEnd, amqp.CondNotAllowed},
		{"no token", func(c *rawClient) { c.attach("a", 1, false, "", "q") }, amqp.CodeDetach, amqp.CondUnauthorized},
		{"a token for something else", func(c *rawClient) {
			c.claim("qq")
			c.attach("a", 1, false, "", "q")
		}, amqp.CodeDetach, amqp.CondUnauthorized},
		{"a second link to $cbs", func(c *rawClient) {
			c.claim("q")
			c.attach("cbs-too", 1, false, "", addressCBS)
		}, amqp.CodeDetach, amqp.CondNotAllowed},
		{"sending to dead letters", func(c *rawClient) {
			c.claim("q")
			c.attach("a", 1, false, "", "q/$DeadLetterQueue")
		}, amqp.CodeDetach, amqp.CondNotAllowed},
		{"transactions", func(c *rawClient) {
			c.send(amqp.Attach{Name: "tx", Handle: 1, Source: &amqp.Source{}, Target: &amqp.Target{Coordinator: true}})
		}, amqp.CodeDetach, amqp.CondNotImplemented},
		{"no delivery-id", func(c *rawClient) {
			c.sender()
			c.sendWith(amqp.Transfer{Handle: 1}, dataMessage(1))
		}, amqp.CodeDetach, amqp.CondNotAllowed},
		{"a message too large", func(c *rawClient) {
			c.sender()
			part := dataMessage(60_000)
			for range 5 {
				c.sendWith(amqp.Transfer{Handle: 1, HasID: true, More: true}, part)
			}
		}, amqp.CodeDetach, amqp.CondMessageSize},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
				tt.do(c)
				c.wantError(tt.ends, tt.condition)
				if tt.ends == amqp.CodeClose {
					c.wantEnd()
				}
				want := map[bool]int{true: 0, false: 1}[tt.ends == amqp.CodeClose]
				if got := b.Connections(); got != want {
					t.Errorf("%d connections are left, want %d", got, want)
				}
			})
		})
	}
}

func TestUnreadableMessagesAreRejected(t *testing.T) {
	for name, payload := range map[string][]byte{
		"no section":              {1, 2, 3},
		"cut short":               dataMessage(10)[:8],
		"unknown section":         section(nil, 0x99, "x"),
		"message-id of no type":   section(nil, amqp.SectionProperties, []any{[]any{"x"}}),
		"group-id of no type":     section(nil, amqp.SectionProperties, []any{"id", nil, nil, nil, nil, nil, nil, nil, nil, nil, uint8(1)}),
		"properties not a list":   section(nil, amqp.SectionProperties, "x"),
		"header not a list":       section(nil, amqp.SectionHeader, "x"),
		"annotations not a map":   section(nil, amqp.SectionAnnotations, "x"),
		"app properties: odd map": []byte("\x00\x53\x74\xc1\x02\x01\x40"),
	} {
		inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
			c.sender()
			c.transfer(1, 0, payload)
			d := wantBody[*amqp.Disposition](c, amqp.CodeDisposition)
			if d.State.Code != amqp.CodeRejected || d.State.Err == nil || d.State.Err.Condition != amqp.CondDecodeError {
				t.Errorf("%s: got outcome %+v, want it rejected", name, d.State)
			}
		})
	}
}

func TestHandshakeWithSomethingElse(t *testing.T) {
	for _, hello := range []string{"GET / HTTP/1.1\r\n\r\n", "AMQP\x02\x01\x00\x00", "AMQP\x00\x00\x09\x01"} {
		synctest.Test(t, func(t *testing.T) {
			b := New(nil)
			defer b.Close()
			c := newRawClient(t, b.Dial())
			defer c.nc.Close()
			go c.nc.Write([]byte(hello))
			if h, err := c.r.Header(); h != amqp.HeaderAMQP || err != nil {
				t.Errorf("after %q got header %q, error %v, want to hear what is spoken here", hello, h, err)
			}
			c.wantEnd()
		})
	}
}

// The answer to an attach repeats what the client requested, in the other role.
func TestAttachIsAnswered(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, _ *Broker, c *rawClient) {
		c.claim("q")
		for _, receives := range []bool{false, true} {
			c.send(amqp.Attach{
				Name: "a link", Handle: 7, Receiver: receives, SettleMode: new(uint8(1)),
				Source: &amqp.Source{Address: "Q"}, Target: &amqp.Target{Address: "Q"},
			})
			p := wantBody[*amqp.Attach](c, amqp.CodeAttach)
			if p.Name != "a link" || p.Handle != 7 || p.Receiver == receives || p.SendMode != nil || *p.SettleMode != 1 ||
				p.Source.Address != "Q" || p.Target.Address != "Q" || p.MaxSize != maxMessage {
				t.Errorf("got %+v", p)
			}
			c.send(amqp.Detach{Handle: 7})
			for c.next().Code != amqp.CodeDetach {
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
		c.send(amqp.Detach{Handle: 1})
		c.want(amqp.CodeDetach)
		time.Sleep(2 * time.Minute)
		c.send(amqp.Close{})
		c.want(amqp.CodeClose) // and nothing before it
	})
}

// An end without a session is passed over in silence.
func TestEndWithoutSession(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, _ *Broker, c *rawClient) {
		c.write(amqp.AppendFrame(nil, amqp.KindAMQP, 5, amqp.End{}, nil))
		c.send(amqp.End{})
		c.want(amqp.CodeEnd)
		c.send(amqp.Close{})
		c.want(amqp.CodeClose)
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
				c.sendWith(amqp.Transfer{Handle: 1, DeliveryID: id, HasID: true, More: n < len(rest)}, rest[:n])
				if rest = rest[n:]; len(rest) == 0 {
					break
				}
			}
			c.want(amqp.CodeDisposition)
		}
		// The reply to put-token was transfer 0.
		var got []byte
		frames := 0
		for next := uint32(1); frames < 6; next += 2 {
			flow := credit(2, 2)
			flow.NextIncoming, flow.IncomingWindow = next, 2
			c.send(flow)
			for range 2 {
				got = append(got, c.want(amqp.CodeTransfer).Payload...)
				frames++
			}
			synctest.Wait()
			c.nc.SetReadDeadline(time.Now().Add(time.Second))
			if f, err := c.r.Next(); err == nil && f.Code == amqp.CodeTransfer {
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
		c.attach("sender", 1, false, "", "q")
		c.want(amqp.CodeAttach)
		c.want(amqp.CodeFlow)
		for _, tt := range []struct {
			name                  string
			handle, credit        uint32
			drain                 bool
			wantCredit, wantCount uint32
		}{
			{"a receiver's credit", 2, 10, false, 10, 0},
			{"a sender's credit", 1, 0, false, fullCredit, 0},
			{"a receiver's credit, drained", 2, 10, true, 0, 10},
		} {
			p := credit(tt.handle, tt.credit)
			p.Drain, p.Echo = tt.drain, !tt.drain
			c.send(p)
			got := wantBody[*amqp.Flow](c, amqp.CodeFlow)
			if got.Credit != tt.wantCredit || got.DeliveryCount != tt.wantCount || got.Drain != tt.drain {
				t.Errorf("%s: got %+v, want credit %d, count %d", tt.name, got, tt.wantCredit, tt.wantCount)
			}
		}
		c.send(amqp.Flow{IncomingWindow: 100, Echo: true}) // of the session
		if p := wantBody[*amqp.Flow](c, amqp.CodeFlow); p.HasHandle || p.IncomingWindow != broad {
			t.Errorf("got %+v, want the session's window", p)
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
			c.want(amqp.CodeDisposition)
		}
		c.send(credit(2, 3))
		for range 3 {
			c.want(amqp.CodeTransfer)
		}
		c.send(amqp.Disposition{Receiver: true, Last: 1<<32 - 1, State: accepted})
		for range 3 {
			c.want(amqp.CodeDisposition)
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
