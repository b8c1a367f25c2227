package servicebus

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
	"kennel/relay"
)

// TestForward sends random messages with all sections and types of AMQP to one
// queue, forwards them to another as a syphon does, and compares what arrives
// there with what was sent.
func TestForward(t *testing.T) {
	seed := storetest.Seed(t)
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		if err := b.CreateQueue("home", nil); err != nil {
			t.Fatal(err)
		}
		c := connect(t, inProcess(b))
		random := randomMessage{rand.New(rand.NewPCG(seed, 0))}
		for range storetest.Scale(100, 2000) {
			sent := random.message()
			forwarded := forwardOnce(t, c, sent)
			if diff := cmp.Diff(normalized(sent), forwarded, cmpopts.IgnoreUnexported(relay.Message{}), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("the forwarded message differs (-sent +forwarded):\n%s", diff)
			}
		}
	})
}

// forwardOnce sends a message to orders, forwards it to home, and returns what
// arrives there.
func forwardOnce(t *testing.T, c relay.Connection, m *relay.Message) *relay.Message {
	t.Helper()
	for _, step := range []struct{ from, to string }{{"", orders}, {orders, "home"}, {"home", ""}} {
		if step.from != "" {
			ds, err := c.Receive(within(t, time.Second), step.from, 1)
			if err != nil || len(ds) != 1 {
				t.Fatalf("received %d messages from %s and error %v", len(ds), step.from, err)
			}
			if err := c.Settle(within(t, time.Second), ds[0], relay.Settlement{Action: relay.Complete}); err != nil {
				t.Fatal(err)
			}
			m = ds[0].Message
		}
		if step.to != "" {
			if err := c.Send(within(t, time.Second), step.to, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}

// normalized returns a message as a receiver sees it: the bus adds a header.
func normalized(m *relay.Message) *relay.Message {
	n := *m
	n.DeliveryTag, n.DeliveryAnnotations = nil, nil
	header := azservicebus.AMQPAnnotatedMessageHeader{Priority: 4}
	if m.Header != nil {
		header = *m.Header
		header.DeliveryCount, header.FirstAcquirer = 0, false
	}
	n.Header = &header
	return &n
}

// randomMessage makes messages.
type randomMessage struct{ *rand.Rand }

func (r randomMessage) message() *relay.Message {
	m := &relay.Message{
		Properties: &azservicebus.AMQPAnnotatedMessageProperties{
			MessageID:          r.id(),
			UserID:             maybe(r, r.bytes()),
			To:                 r.text(),
			Subject:            r.text(),
			ReplyTo:            r.text(),
			CorrelationID:      maybe(r, r.id()),
			ContentType:        r.text(),
			ContentEncoding:    r.text(),
			AbsoluteExpiryTime: maybe(r, to.Ptr(r.moment())),
			CreationTime:       maybe(r, to.Ptr(r.moment())),
			GroupID:            r.text(),
			GroupSequence:      maybe(r, to.Ptr(r.Uint32())),
			ReplyToGroupID:     r.text(),
		},
		ApplicationProperties: maybe(r, r.properties()),
		DeliveryAnnotations:   maybe(r, map[any]any{"hop": r.simple()}),
		MessageAnnotations:    maybe(r, r.annotations()),
		Footer:                maybe(r, map[any]any{"footer": r.value(2)}),
		DeliveryTag:           maybe(r, []byte("tag")),
	}
	if m.Properties.GroupID != nil {
		delete(m.MessageAnnotations, "x-opt-partition-key") // the bus requires that both are equal
	}
	if r.IntN(2) == 0 {
		m.Header = &azservicebus.AMQPAnnotatedMessageHeader{
			Durable: r.IntN(2) == 0, Priority: uint8(r.IntN(10)), TTL: time.Duration(r.IntN(2)) * time.Hour, FirstAcquirer: r.IntN(2) == 0, DeliveryCount: r.Uint32N(3),
		}
	}
	switch r.IntN(4) {
	case 0:
		m.Body.Value = r.value(3)
	case 1:
		m.Body.Sequence = [][]any{{r.value(2), r.value(1)}, {}, {r.simple()}}
	case 2: // no body
	default:
		for range 1 + r.IntN(3) {
			m.Body.Data = append(m.Body.Data, r.bytes())
		}
	}
	return m
}

func maybe[T any](r randomMessage, v T) T {
	if r.IntN(2) == 0 {
		var none T
		return none
	}
	return v
}

func (r randomMessage) id() any {
	switch r.IntN(4) {
	case 0:
		return r.Uint64()
	case 1:
		return amqp.UUID{byte(r.Uint32()), 2, 3}
	case 2:
		return r.bytes()
	}
	return fmt.Sprint("id-", r.Uint64())
}

func (r randomMessage) bytes() []byte {
	b := make([]byte, 1+r.IntN(300))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (r randomMessage) text() *string {
	return maybe(r, to.Ptr([]string{"", "plain", "ünïcödé ☃", fmt.Sprint(r.Uint64())}[r.IntN(4)]))
}

func (r randomMessage) moment() time.Time { return time.UnixMilli(r.Int64N(1 << 42)).UTC() }

// simple returns a value of a type that a property may have.
func (r randomMessage) simple() any {
	switch r.IntN(16) {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return uint8(r.Uint32())
	case 3:
		return uint16(r.Uint32())
	case 4:
		return r.Uint32()
	case 5:
		return r.Uint64()
	case 6:
		return int8(r.Uint32())
	case 7:
		return int16(r.Uint32())
	case 8:
		return int32(r.Uint32())
	case 9:
		return int64(r.Uint64())
	case 10:
		return float32(r.NormFloat64())
	case 11:
		return []float64{r.NormFloat64(), math.Inf(1), 0, math.MaxFloat64}[r.IntN(4)]
	case 12:
		return r.moment()
	case 13:
		return amqp.UUID{1, byte(r.Uint32())}
	case 14:
		return r.bytes()
	}
	return *to.Ptr(fmt.Sprint("text ", r.Uint32()))
}

// value returns a value of any type.
func (r randomMessage) value(depth int) any {
	if depth > 0 {
		switch r.IntN(4) {
		case 0:
			return map[string]any{"one": r.value(depth - 1), "two": r.simple()}
		case 1:
			return []any{r.value(depth - 1), r.simple()}
		case 2:
			return []int64{1, r.Int64()} // an array
		}
	}
	for {
		if v := r.simple(); v != nil {
			return v
		}
	}
}

func (r randomMessage) properties() map[string]any {
	p := make(map[string]any)
	for i := range 1 + r.IntN(5) {
		p[fmt.Sprint("property ", i)] = r.simple()
	}
	return p
}

// annotations include one that JMS uses, and one that only the sender sets.
func (r randomMessage) annotations() map[any]any {
	return map[any]any{
		"x-opt-partition-key": "key", "x-opt-jms-msg-type": int8(3), "mine": r.simple(), "nested": r.value(1),
	}
}

// TestForwardLimits: go-amqp decodes symbols as strings and does not report
// which they were. If this fails after an update of the SDK, a limitation is
// gone from the documents.
func TestForwardLimits(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		if err := b.CreateQueue("home", nil); err != nil {
			t.Fatal(err)
		}
		got := forwardOnce(t, connect(t, inProcess(b)), &relay.Message{
			ApplicationProperties: map[string]any{"symbol": amqp.Symbol("s")},
			Body:                  azservicebus.AMQPAnnotatedMessageBody{Value: amqp.Null{}},
		})
		if got.ApplicationProperties["symbol"] != "s" || got.Body.Value != nil {
			t.Errorf("got property %#v and body %#v", got.ApplicationProperties["symbol"], got.Body.Value)
		}
	})
}

// TestForwardable removes what the bus added, and nothing else, and leaves the
// received message as it is.
func TestForwardable(t *testing.T) {
	received := &relay.Message{
		Header:              &azservicebus.AMQPAnnotatedMessageHeader{Durable: true, Priority: 7, TTL: time.Hour, DeliveryCount: 3, FirstAcquirer: true},
		DeliveryTag:         []byte("tag"),
		DeliveryAnnotations: map[any]any{"x-opt-lock-token": amqp.UUID{1}},
		MessageAnnotations:  map[any]any{"x-opt-partition-key": "key", "x-opt-jms-dest": int8(0), "mine": 1},
	}
	want := map[any]any{"x-opt-partition-key": "key", "x-opt-jms-dest": int8(0), "mine": 1}
	for _, name := range brokerAnnotations {
		received.MessageAnnotations[name] = "stale"
	}
	got := forwardable(received)
	if diff := cmp.Diff(want, got.MessageAnnotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if got.DeliveryTag != nil || got.DeliveryAnnotations != nil || got.Header.DeliveryCount != 0 || got.Header.FirstAcquirer || got.Header.Priority != 7 {
		t.Errorf("got %+v with header %+v", got, got.Header)
	}
	if len(received.MessageAnnotations) != len(want)+len(brokerAnnotations) || received.Header.DeliveryCount != 3 {
		t.Error("the received message changed")
	}
}

// TestPrepared: a message that AMQP cannot encode is refused before it is sent,
// and the caller's message stays as it is.
func TestPrepared(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		c := connect(t, inProcess(b))
		type unknown struct{ A int }
		for what, m := range map[string]*relay.Message{
			"property":   {ApplicationProperties: map[string]any{"a": unknown{}}},
			"pointer":    {ApplicationProperties: map[string]any{"a": (*string)(nil)}},
			"annotation": {MessageAnnotations: map[any]any{"a": unknown{}}},
			"value":      {Body: azservicebus.AMQPAnnotatedMessageBody{Value: unknown{}}},
			"nested":     {Body: azservicebus.AMQPAnnotatedMessageBody{Value: []any{map[string]any{"a": make(chan int)}}}},
			"sequence":   {Body: azservicebus.AMQPAnnotatedMessageBody{Sequence: [][]any{{unknown{}}}}},
			"footer":     {Footer: map[any]any{"a": unknown{}}},
			"id":         {Properties: &azservicebus.AMQPAnnotatedMessageProperties{MessageID: unknown{}}},
		} {
			wantClass(t, what, c.Send(within(t, time.Second), orders, m), relay.Invalid)
		}
		if got := b.Stats().Connections; got != 0 {
			t.Errorf("%d connections, want none", got)
		}
		m := text("x")
		m.DeliveryTag = make([]byte, 33) // more than the SDK sends
		for range 2 {
			if err := c.Send(within(t, time.Second), orders, m); err != nil {
				t.Fatal(err)
			}
		}
		if m.Properties != nil {
			t.Errorf("Send changed the message: %+v", m.Properties)
		}
		ids := make(map[any]bool)
		for _, d := range receive(t, c, 2) {
			ids[d.Message.Properties.MessageID] = true
		}
		if len(ids) != 2 || ids[nil] || ids[""] {
			t.Errorf("the messages have the ids %v, want two", ids)
		}
		large := text(string(make([]byte, 300<<10)))
		wantClass(t, "large", c.Send(within(t, time.Second), orders, large), relay.TooLarge)
		mustSend(t, c)
	})
}
