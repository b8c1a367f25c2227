package devbus

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// rawClient is a client without an SDK, for what no SDK would do.
type rawClient struct {
	t  *testing.T
	nc net.Conn
	r  *frameReader
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
		c := dialRaw(t, b)
		defer c.nc.Close()
		c.handshake()
		c.send(openFrame{container: "raw", maxFrame: maxFrame, idle: time.Minute})
		c.want(codeOpen)
		c.send(rawBegin{window: 100})
		c.want(codeBegin)
		test(t, b, c)
	})
}

func dialRaw(t *testing.T, b *Broker) *rawClient {
	nc := b.Dial()
	return &rawClient{t: t, nc: nc, r: newFrameReader(nc)}
}

func (c *rawClient) write(b []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

func (c *rawClient) handshake() {
	c.t.Helper()
	c.write(headerSASL[:])
	if h, err := c.r.header(); h != headerSASL || err != nil {
		c.t.Fatalf("got header %q, error %v", h, err)
	}
	c.want(codeSASLMechanisms)
	c.write(appendFrame(nil, frameSASL, 0, rawBody(codeSASLInit, symbol("ANONYMOUS")), nil))
	c.want(codeSASLOutcome)
	c.write(headerAMQP[:])
	if h, err := c.r.header(); h != headerAMQP || err != nil {
		c.t.Fatalf("got header %q, error %v", h, err)
	}
}

func (c *rawClient) send(p body) { c.sendWith(p, nil) }

func (c *rawClient) sendWith(p body, payload []byte) {
	c.t.Helper()
	c.write(appendFrame(nil, frameAMQP, 0, p, payload))
}

// want reads the next frame that is more than a sign of life.
func (c *rawClient) want(code uint64) frame {
	c.t.Helper()
	f := c.next()
	if f.code != code {
		c.t.Fatalf("got performative %#02x, want %#02x", f.code, code)
	}
	return f
}

func (c *rawClient) next() frame {
	c.t.Helper()
	for {
		f, err := c.r.next()
		if err != nil {
			c.t.Fatalf("read: %v", err)
		}
		if f.code != 0 {
			return f
		}
	}
}

// wantError reads frames until one of the code comes, which must carry the
// condition. Errors are the first field of close and end, the third of detach.
func (c *rawClient) wantError(code uint64, condition string) {
	c.t.Helper()
	f := c.next()
	for f.code != code {
		f = c.next()
	}
	if code == codeDetach {
		f.fields.next()
		f.fields.next()
	}
	_, e, _ := f.fields.composite()
	if got := e.text(); got != condition {
		c.t.Errorf("performative %#02x has condition %q, want %q", code, got, condition)
	}
}

// wantEnd reads until the broker hangs up.
func (c *rawClient) wantEnd() {
	c.t.Helper()
	for {
		if _, err := c.r.next(); err != nil {
			if _, broken := errors.AsType[*amqpError](err); broken {
				c.t.Errorf("the broker sent a broken frame: %v", err)
			}
			return
		}
	}
}

// claim puts a token for everything below a path, on handles 8 and 9.
func (c *rawClient) claim(path string) {
	c.t.Helper()
	c.attach("cbs-out", 8, false, "", addressCBS)
	c.want(codeAttach)
	c.want(codeFlow)
	c.attach("cbs-in", 9, true, addressCBS, "my-replies")
	c.want(codeAttach)
	c.send(rawFlow{handle: 9, credit: 1, window: 100})
	c.transfer(8, 0, c.request("my-replies", "put-token", pair{"name", "sb://host/" + path}))
	c.want(codeDisposition)
	c.want(codeTransfer)
}

func (c *rawClient) attach(name string, handle uint32, receives bool, source, target string, properties ...pair) {
	c.t.Helper()
	mode := uint8(2 * map[bool]uint8{false: 1}[receives])
	c.send(attachFrame{
		name: name, handle: handle, receives: receives, sendMode: &mode,
		source: terminus{true, source}, target: terminus{true, target}, properties: properties,
	})
}

func (c *rawClient) transfer(handle, id uint32, payload []byte) {
	c.t.Helper()
	c.sendWith(transferFrame{handle: handle, deliveryID: id, hasID: true, tag: []byte{byte(id)}}, payload)
}

// request is an encoded message with an operation.
func (c *rawClient) request(replyTo, operation string, properties ...pair) []byte {
	p := open(appendDescriptor(nil, sectionProperties), ctorList32)
	p.string("request-1")
	for range 3 {
		p.null()
	}
	p.string(replyTo)
	b := appendDescriptor(p.close(), sectionApplication)
	b = appendValue(b, append(mapping{{"operation", operation}}, properties...))
	return appendValue(appendDescriptor(b, sectionValue), nil)
}

// rawBody is any performative.
func rawBody(code uint64, fields ...any) body { return anyBody{code, fields} }

type anyBody struct {
	code   uint64
	fields []any
}

func (p anyBody) appendTo(b []byte) []byte {
	return appendValue(b, described{p.code, p.fields})
}

// rawBegin and rawFlow are as clients write them; the broker's own have other
// fields.
type rawBegin struct{ window uint32 }

func (p rawBegin) appendTo(b []byte) []byte {
	return rawBody(codeBegin, nil, uint32(0), p.window, uint32(100), uint32(255)).appendTo(b)
}

type rawFlow struct {
	next, window          uint32
	handle, count, credit uint32
	drain, echo           bool
}

func (p rawFlow) appendTo(b []byte) []byte {
	return rawBody(codeFlow, p.next, p.window, uint32(0), uint32(100), p.handle, p.count, p.credit, nil, p.drain, p.echo).appendTo(b)
}

// dataMessage is an encoded message with a body of that size.
func dataMessage(size int) []byte {
	return appendBinary(appendDescriptor(nil, sectionData), make([]byte, size))
}
