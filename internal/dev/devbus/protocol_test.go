package devbus

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// TestProtocolViolations checks that a client that violates the protocol
// receives the error that ends its link, session or connection.
func TestProtocolViolations(t *testing.T) {
	for _, tt := range []struct {
		name      string
		claim     string // the path to put a token for, if any
		do        func(*rawClient)
		ends      uint64 // the performative that carries the error
		condition string
	}{
		{"a frame that is too large", "", func(c *rawClient) { c.write([]byte{0, 2, 0, 0, 2, 0, 0, 0}) }, amqp.CodeClose, amqp.CondFraming},
		{"a body of an unknown type", "", func(c *rawClient) { c.write([]byte{0, 0, 0, 10, 2, 0, 0, 0, 0xff, 0xff}) }, amqp.CodeClose, amqp.CondDecodeError},
		{"an open with a field of the wrong type", "", func(c *rawClient) { c.send(anyBody{amqp.CodeOpen, []any{true}}) }, amqp.CodeClose, amqp.CondDecodeError},
		{"a flow with a field of the wrong type", "", func(c *rawClient) { c.send(anyBody{amqp.CodeFlow, []any{"x"}}) }, amqp.CodeEnd, amqp.CondDecodeError},
		{"an unknown performative", "", func(c *rawClient) { c.send(anyBody{code: 0x33}) }, amqp.CodeEnd, amqp.CondNotAllowed},
		{"SASL after the handshake", "", func(c *rawClient) {
			c.write(amqp.AppendFrame(nil, amqp.KindSASL, 0, anyBody{code: amqp.CodeSASLInit}, nil))
		}, amqp.CodeClose, amqp.CondNotAllowed},
		{"open twice", "", func(c *rawClient) { c.send(amqp.Open{}) }, amqp.CodeClose, amqp.CondNotAllowed},
		{"begin twice", "", func(c *rawClient) { c.send(amqp.Begin{}) }, amqp.CodeClose, amqp.CondNotAllowed},
		{"a channel without a session", "", func(c *rawClient) { c.write(amqp.AppendFrame(nil, amqp.KindAMQP, 5, amqp.Flow{}, nil)) }, amqp.CodeClose, amqp.CondNotAllowed},
		{"a flow for an unknown link", "", func(c *rawClient) { c.send(credit(3, 1)) }, amqp.CodeEnd, amqp.CondUnattached},
		{"a transfer for an unknown link", "", func(c *rawClient) { c.transfer(3, 0, dataMessage(1)) }, amqp.CodeEnd, amqp.CondUnattached},
		{"a detach for an unknown link", "", func(c *rawClient) { c.send(amqp.Detach{Handle: 3}) }, amqp.CodeEnd, amqp.CondUnattached},
		{"a handle in use", "q", func(c *rawClient) { c.attach("a", 8, false, "", "q") }, amqp.CodeEnd, amqp.CondHandleInUse},
		{"a transfer on a receiver's link", "q", func(c *rawClient) { c.transfer(9, 0, dataMessage(1)) }, amqp.CodeEnd, amqp.CondNotAllowed},
		{"no token", "", func(c *rawClient) { c.attach("a", 1, false, "", "q") }, amqp.CodeDetach, amqp.CondUnauthorized},
		{"a token for another path", "qq", func(c *rawClient) { c.attach("a", 1, false, "", "q") }, amqp.CodeDetach, amqp.CondUnauthorized},
		{"a second link to $cbs", "q", func(c *rawClient) { c.attach("cbs-second", 1, false, "", addressCBS) }, amqp.CodeDetach, amqp.CondNotAllowed},
		{"sending to dead letters", "q", func(c *rawClient) { c.attach("a", 1, false, "", "q/$DeadLetterQueue") }, amqp.CodeDetach, amqp.CondNotAllowed},
		{"transactions", "", func(c *rawClient) {
			c.send(amqp.Attach{Name: "tx", Source: &amqp.Source{}, Target: &amqp.Target{Coordinator: true}})
		}, amqp.CodeDetach, amqp.CondNotImplemented},
		{"no delivery-id", "q", func(c *rawClient) { c.sendWith(amqp.Transfer{Handle: 8}, dataMessage(1)) }, amqp.CodeDetach, amqp.CondNotAllowed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
				if tt.claim != "" {
					c.claim(tt.claim)
				}
				tt.do(c)
				c.wantError(tt.ends, tt.condition)
				left := 1
				if tt.ends == amqp.CodeClose {
					c.wantEnd()
					left = 0
				}
				if got := b.Connections(); got != left {
					t.Errorf("%d connections are left, want %d", got, left)
				}
			})
		})
	}
}

func TestUnreadableMessagesAreRejected(t *testing.T) {
	for name, payload := range map[string][]byte{
		"no section":              {1, 2, 3},
		"truncated":               dataMessage(10)[:8],
		"unknown section":         section(nil, 0x99, "x"),
		"message-id: a list":      section(nil, amqp.SectionProperties, []any{[]any{"x"}}),
		"group-id: a number":      section(nil, amqp.SectionProperties, []any{"id", nil, nil, nil, nil, nil, nil, nil, nil, nil, uint8(1)}),
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

func TestHandshakeWithAnotherProtocol(t *testing.T) {
	for _, hello := range []string{"GET / HTTP/1.1\r\n\r\n", "AMQP\x02\x01\x00\x00", "AMQP\x00\x00\x09\x01"} {
		synctest.Test(t, func(t *testing.T) {
			b := New(nil)
			defer b.Close()
			c := newRawClient(t, b.Dial())
			defer c.nc.Close()
			go c.nc.Write([]byte(hello))
			if h, err := c.r.Header(); h != amqp.HeaderAMQP || err != nil {
				t.Errorf("after %q got header %q, error %v, want that of AMQP", hello, h, err)
			}
			c.wantEnd()
		})
	}
}

// TestRequestsOfThePythonSDK checks requests without a reply-to, which are
// answered on the link from the same node, and addresses that are URLs.
func TestRequestsOfThePythonSDK(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, _ *Broker, c *rawClient) {
		const url = "amqps://contoso.servicebus.windows.net/Q"
		c.ask(10, addressCBS, requestMessage("", "put-token", nil, "name", url))
		c.ask(20, url+"/$management", requestMessage("", opPeek, nil))
		c.attach("sender", 1, false, "", url)
		if answer := wantBody[*amqp.Attach](c, amqp.CodeAttach); answer.Target == nil || answer.Target.Address != url {
			t.Errorf("the answer to the attach has target %+v, want %s", answer.Target, url)
		}
		c.want(amqp.CodeFlow)
		c.attach("receiver", 2, true, url+"/$DeadLetterQueue", "")
		if answer := wantBody[*amqp.Attach](c, amqp.CodeAttach); answer.Source == nil {
			t.Error("the receiver was refused")
		}
	})
}

// TestPeekingOnTopic checks that a topic shows its scheduled messages.
func TestPeekingOnTopic(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		b.CreateTopic("t", nil)
		c.claim("t")
		c.attach("sender", 1, false, "", "t")
		c.want(amqp.CodeAttach, amqp.CodeFlow)
		for i, body := range []string{"now", "first", "second"} {
			at := time.Now().Add(time.Duration(i) * time.Hour)
			m := section(nil, amqp.SectionAnnotations, amqp.Map{amqp.Symbol(annotationScheduled), at})
			c.transfer(1, uint32(i+1), section(m, amqp.SectionData, []byte(body)))
			c.want(amqp.CodeDisposition)
		}
		reply := c.ask(20, "t/$management", requestMessage("", opPeek, amqp.Map{"from-sequence-number", int64(0), "message-count", int32(10)}))
		if n := bytes.Count(reply, []byte(annotationState)); n != 2 || !bytes.Contains(reply, []byte("first")) || !bytes.Contains(reply, []byte("second")) {
			t.Errorf("peeking found %d messages with a state, want 2: %q", n, reply)
		}
	})
}

// TestReplyWithoutReceiver checks that a client learns that nothing receives
// the reply that it waits for.
func TestReplyWithoutReceiver(t *testing.T) {
	for _, replyTo := range []string{"", "nowhere"} {
		inBubbleRaw(t, func(t *testing.T, _ *Broker, c *rawClient) {
			c.attach("requests", 1, false, "", addressCBS)
			c.want(amqp.CodeAttach, amqp.CodeFlow)
			c.transfer(1, 0, requestMessage(replyTo, "put-token", nil, "name", "sb://host/q"))
			c.wantError(amqp.CodeDetach, amqp.CondNotAllowed)
		})
	}
}

// TestLateAnswerToDetachedLink checks that the broker drops a late answer if
// its link was detached. SDKs end their session if they receive such an answer.
func TestLateAnswerToDetachedLink(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		c.sender()
		b.Fail(Fault{Kind: Slow, Delay: time.Minute})
		c.transfer(1, 1, dataMessage(1))
		c.send(amqp.Detach{Handle: 1})
		c.want(amqp.CodeDetach)
		time.Sleep(2 * time.Minute)
		c.send(amqp.Close{})
		c.want(amqp.CodeClose) // and no other frame before it
	})
}

// TestEndWithoutSession checks that the broker ignores an End without a
// session.
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

// TestSessionWindow checks that the window of a session limits the frames to
// the client, also in the middle of a message.
func TestSessionWindow(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		c.sender()
		c.receiver()
		large := dataMessage(150_000)
		for id := uint32(1); id < 3; id++ {
			for part := range slices.Chunk(large, 60_000) {
				c.sendWith(amqp.Transfer{Handle: 1, DeliveryID: id, HasID: true, More: len(part) == 60_000}, part)
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
				t.Fatal("a transfer arrived although the window was closed")
			}
			c.nc.SetReadDeadline(time.Time{})
		}
		if n := bytes.Count(got, large[:8]); n != 2 {
			t.Errorf("%d messages arrived completely, want 2", n)
		}
	})
}

func TestDrainAndEcho(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		c.claim("q")
		c.receiver()
		c.attach("sender", 1, false, "", "q")
		c.want(amqp.CodeAttach, amqp.CodeFlow)
		for _, tt := range []struct {
			handle, credit        uint32
			drain                 bool
			wantCredit, wantCount uint32
		}{{2, 10, false, 10, 0}, {1, 0, false, fullCredit, 0}, {2, 10, true, 0, 10}} {
			p := credit(tt.handle, tt.credit)
			p.Drain, p.Echo = tt.drain, !tt.drain
			c.send(p)
			got := wantBody[*amqp.Flow](c, amqp.CodeFlow)
			if got.Credit != tt.wantCredit || got.DeliveryCount != tt.wantCount || got.Drain != tt.drain {
				t.Errorf("after %+v got %+v", tt, got)
			}
		}
	})
}

// TestDispositionOfEverything sends a disposition of four billion deliveries.
func TestDispositionOfEverything(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		c.sender()
		c.receiver()
		for id := range uint32(3) {
			c.transfer(1, id+1, dataMessage(1))
			c.want(amqp.CodeDisposition)
		}
		c.send(credit(2, 3))
		c.want(amqp.CodeTransfer, amqp.CodeTransfer, amqp.CodeTransfer)
		c.send(amqp.Disposition{Receiver: true, Last: 1<<32 - 1, State: accepted})
		c.want(amqp.CodeDisposition, amqp.CodeDisposition, amqp.CodeDisposition)
		if n, _ := b.Counts("q"); n != (Counts{}) {
			t.Errorf("messages left: %+v", n)
		}
	})
}

// TestLocal checks that a local broker serves messages and administration at
// one address, and that Close ends all connections, including frozen ones and
// those that have sent nothing yet.
func TestLocal(t *testing.T) {
	b, err := Listen(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	address := b.listener.Addr().String()
	connect := func() *rawClient {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(time.Minute))
		return newRawClient(t, nc)
	}
	resources := "http://" + address + "/$Resources/queues?api-version=2021-05"
	if resp, err := http.Get(resources); err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("administration without a token: got %+v and error %v, want 401", resp, err)
	}
	b.Fail(Fault{Kind: RefuseDial})
	if resp, err := http.Get(resources); err == nil {
		t.Errorf("administration while connections are refused: got %s", resp.Status)
	}
	refused := connect()
	refused.nc.Write([]byte("AMQP"))
	if n, err := refused.nc.Read(make([]byte, 1)); err == nil {
		t.Errorf("got %d bytes although connections are refused", n)
	}
	b.Heal()

	silent, frozen := connect(), connect()
	frozen.handshake()
	b.Fail(Fault{Kind: Freeze})
	b.Close()
	frozen.wantEnd()
	if _, err := silent.nc.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection that sent nothing ended with %v, want EOF", err)
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("the port is still open after Close")
	}
	if _, err := b.Dial().Write([]byte{0}); err == nil {
		t.Error("a new connection works after Close")
	}
}

// TestTooLargeMessageIsRejected: its link stays, as that of Service Bus does. A
// client that waits for the outcome would otherwise wait for its timeout.
func TestTooLargeMessageIsRejected(t *testing.T) {
	inBubbleRaw(t, func(t *testing.T, b *Broker, c *rawClient) {
		c.claim("q")
		for i := range 5 {
			c.sendWith(amqp.Transfer{Handle: 8, HasID: true, DeliveryID: 0, More: i < 4}, dataMessage(60_000))
		}
		d := wantBody[*amqp.Disposition](c, amqp.CodeDisposition)
		if d.State.Code != amqp.CodeRejected || d.State.Err == nil || d.State.Err.Condition != amqp.CondMessageSize {
			t.Errorf("the outcome is %+v", d.State)
		}
		c.transfer(8, 1, dataMessage(1))
		if d := wantBody[*amqp.Disposition](c, amqp.CodeDisposition); d.State.Code != amqp.CodeAccepted {
			t.Errorf("the outcome of the next message is %+v", d.State)
		}
	})
}
