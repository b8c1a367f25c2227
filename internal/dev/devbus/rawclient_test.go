package devbus

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// rawClient is a client without an SDK. It can send what no SDK sends.
type rawClient struct {
	t  *testing.T
	nc net.Conn
	r  *amqp.Reader
}

// inBubbleRaw runs a test in virtual time with a broker that has the queue
// "q", and a client that has opened its connection and a session on channel 0.
func inBubbleRaw(t *testing.T, test func(*testing.T, *Broker, *rawClient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := New(nil)
		defer b.Close()
		if err := b.CreateQueue("q", nil); err != nil {
			t.Fatal(err)
		}
		c := newRawClient(t, b.Dial())
		defer c.nc.Close()
		c.handshake()
		c.send(amqp.Open{Container: "raw", MaxFrame: amqp.MaxFrame, Idle: time.Minute})
		c.want(amqp.CodeOpen)
		c.send(amqp.Begin{IncomingWindow: 100, OutgoingWindow: 100, HandleMax: 255})
		c.want(amqp.CodeBegin)
		test(t, b, c)
	})
}

func newRawClient(t *testing.T, nc net.Conn) *rawClient {
	return &rawClient{t, nc, amqp.NewReader(nc)}
}

func (c *rawClient) write(b []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// handshake exchanges the headers of SASL and AMQP, and authenticates in
// between. The broker answers each header with the same header.
func (c *rawClient) handshake() {
	c.t.Helper()
	for _, header := range []amqp.ProtocolHeader{amqp.HeaderSASL, amqp.HeaderAMQP} {
		c.write([]byte(header))
		if h, err := c.r.Header(); h != header || err != nil {
			c.t.Fatalf("got header %q, error %v", h, err)
		}
		if header == amqp.HeaderSASL {
			c.want(amqp.CodeSASLMechanisms)
			c.write(amqp.AppendFrame(nil, amqp.KindSASL, 0, anyBody{amqp.CodeSASLInit, []any{amqp.Symbol("ANONYMOUS")}}, nil))
			c.want(amqp.CodeSASLOutcome)
		}
	}
}

func (c *rawClient) send(p amqp.Performative) { c.sendWith(p, nil) }

func (c *rawClient) sendWith(p amqp.Performative, payload []byte) {
	c.t.Helper()
	c.write(amqp.AppendFrame(nil, amqp.KindAMQP, 0, p, payload))
}

// credit is a flow that grants credit on a link, with room for 100 frames in
// the session.
func credit(handle, n uint32) amqp.Flow {
	return amqp.Flow{NextIncoming: 1, HasNextIncoming: true, IncomingWindow: 100, OutgoingWindow: 100, HasHandle: true, Handle: handle, Credit: n}
}

// want reads frames, which must have these codes, and returns the last.
func (c *rawClient) want(codes ...uint64) (f amqp.Frame) {
	c.t.Helper()
	for _, code := range codes {
		if f = c.next(); f.Code != code {
			c.t.Fatalf("got performative %#02x, want %#02x", f.Code, code)
		}
	}
	return f
}

// wantBody reads a frame, which must have this code, and returns its body.
func wantBody[P amqp.Performative](c *rawClient, code uint64) P {
	c.t.Helper()
	f := c.want(code)
	body, err := f.Body()
	if err != nil {
		c.t.Fatal(err)
	}
	return body.(P)
}

// next reads the next frame that is not a heartbeat.
func (c *rawClient) next() amqp.Frame {
	c.t.Helper()
	for {
		f, err := c.r.Next()
		if err != nil {
			c.t.Fatalf("read: %v", err)
		}
		if f.Code != 0 {
			return f
		}
	}
}

// wantError reads frames up to the first with this code, which must carry the
// condition.
func (c *rawClient) wantError(code uint64, condition string) {
	c.t.Helper()
	f := c.next()
	for f.Code != code {
		f = c.next()
	}
	body, err := f.Body()
	var got *amqp.Error
	switch p := body.(type) {
	case *amqp.Detach:
		got = p.Err
	case *amqp.End:
		got = p.Err
	case *amqp.Close:
		got = p.Err
	}
	if err != nil || got == nil || got.Condition != condition {
		c.t.Errorf("performative %#02x has error %v, want %s (%v)", code, got, condition, err)
	}
}

// wantEnd reads until the broker closes the connection.
func (c *rawClient) wantEnd() {
	c.t.Helper()
	for {
		if _, err := c.r.Next(); err != nil {
			if _, invalid := errors.AsType[*amqp.Error](err); invalid {
				c.t.Errorf("the broker sent an invalid frame: %v", err)
			}
			return
		}
	}
}

// claim puts a token for a path and all paths below it, on handles 8 and 9.
func (c *rawClient) claim(path string) { c.t.Helper(); c.claimWith(path, nil) }

func (c *rawClient) claimWith(path string, token any) {
	c.t.Helper()
	c.attach("cbs-out", 8, false, "", addressCBS)
	c.want(amqp.CodeAttach, amqp.CodeFlow)
	c.attach("cbs-in", 9, true, addressCBS, "my-replies")
	c.want(amqp.CodeAttach)
	c.send(credit(9, 1))
	c.transfer(8, 0, requestMessage("my-replies", "put-token", token, "name", "sb://host/"+path))
	c.want(amqp.CodeDisposition, amqp.CodeTransfer)
}

// sender attaches handle 1 to q, with a token.
func (c *rawClient) sender() {
	c.t.Helper()
	c.claim("q")
	c.attach("sender", 1, false, "", "q")
	c.want(amqp.CodeAttach, amqp.CodeFlow)
}

// receiver attaches handle 2 to q for peek-lock. The token must be put already.
func (c *rawClient) receiver() {
	c.t.Helper()
	c.attach("receiver", 2, true, "q", "")
	c.want(amqp.CodeAttach)
}

func (c *rawClient) attach(name string, handle uint32, receives bool, source, target string) {
	c.t.Helper()
	c.send(amqp.Attach{Name: name, Handle: handle, Receiver: receives, Source: &amqp.Source{Address: source}, Target: &amqp.Target{Address: target}})
}

func (c *rawClient) transfer(handle, id uint32, payload []byte) {
	c.t.Helper()
	c.sendWith(amqp.Transfer{Handle: handle, DeliveryID: id, HasID: true, Tag: []byte{byte(id)}}, payload)
}

// ask sends a request to a node, on this handle and the next, and returns the
// reply.
func (c *rawClient) ask(handle uint32, node string, request []byte) []byte {
	c.t.Helper()
	c.attach("requests to "+node, handle, false, "", node)
	c.want(amqp.CodeAttach, amqp.CodeFlow)
	c.attach("replies of "+node, handle+1, true, node, "")
	c.want(amqp.CodeAttach)
	c.send(credit(handle+1, 1))
	c.transfer(handle, 1000+handle, request)
	f := c.want(amqp.CodeDisposition, amqp.CodeTransfer)
	if body, err := f.Body(); err != nil || body.(*amqp.Transfer).Handle != handle+1 {
		c.t.Errorf("the reply of %s is %+v, error %v, want it on handle %d", node, body, err, handle+1)
	}
	return f.Payload
}

// requestMessage is an encoded message with an operation, a body and other
// properties.
func requestMessage(replyTo, operation string, body any, properties ...any) []byte {
	p := amqp.OpenList(nil, amqp.SectionProperties)
	p.String("request-1")
	p.Nulls(3)
	p.String(replyTo)
	b := section(p.Close(), amqp.SectionApplication, append(amqp.Map{"operation", operation}, properties...))
	return section(b, amqp.SectionValue, body)
}

// anyBody is any performative.
type anyBody struct {
	code   uint64
	fields []any
}

func (p anyBody) AppendTo(b []byte) []byte { return section(b, p.code, p.fields) }

// section appends a described value, such as the section of a message.
func section(b []byte, code uint64, value any) []byte {
	return amqp.AppendValue(amqp.AppendDescriptor(b, code), value)
}

// dataMessage is an encoded message with a body of size bytes.
func dataMessage(size int) []byte { return section(nil, amqp.SectionData, make([]byte, size)) }
