package relay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestEnvelopeKeepsEverySection seals and opens random messages.
func TestEnvelopeKeepsEverySection(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range 500 {
		m, err := checked("some/path", randomMessage(r, now), 256<<10, now)
		if err != nil {
			t.Fatalf("seed %d, message %d: %v", seed, i, err)
		}
		before := clone(m)
		sealed := seal("some/path", m, now)
		if diff := cmp.Diff(before, m, unexported); diff != "" {
			t.Fatalf("seed %d, message %d: seal changed the message: %s", seed, i, diff)
		}
		small, _ := sizeOf(m)
		if large, err := sizeOf(sealed); err != nil || large > small+headroom {
			t.Fatalf("seed %d, message %d: the envelope has %d bytes, %v", seed, i, large-small, err)
		}
		if sealed.Header.TTL != 0 || sealed.Properties.GroupID != nil || sealed.Properties.AbsoluteExpiryTime != nil {
			t.Fatalf("seed %d, message %d: the backlog queue would act on %+v", seed, i, sealed)
		}
		later := now.Add(time.Duration(r.Int64N(int64(50 * time.Minute))))
		entity, got, err := unseal(throughBroker(sealed), later)
		if err != nil || entity != "some/path" {
			t.Fatalf("seed %d, message %d: %q, %v", seed, i, entity, err)
		}
		want := clone(m)
		if at, ok := annotation(want, ScheduledTime); ok && !at.(time.Time).After(later) {
			deleteAnnotation(want, ScheduledTime)
			want.Header.TTL = max(0, at.(time.Time).Add(m.Header.TTL).Sub(later))
			if m.Header.TTL == 0 {
				want.Header.TTL = 0
			}
		} else if !ok && m.Header.TTL > 0 {
			want.Header.TTL = m.Header.TTL - later.Sub(now)
		}
		if d := want.Header.TTL - got.Header.TTL; d < 0 || d > time.Second {
			t.Fatalf("seed %d, message %d: the time to live is off by %v", seed, i, d)
		}
		got.Header.TTL = want.Header.TTL
		if diff := cmp.Diff(want, got, unexported, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d, message %d: %s", seed, i, diff)
		}
	}
}

var unexported = cmpopts.IgnoreUnexported(azservicebus.AMQPAnnotatedMessage{})

// throughBroker adds what Service Bus adds.
func throughBroker(m *Message) *Message {
	c := clone(m)
	for name, value := range map[string]any{"x-opt-sequence-number": int64(7), "x-opt-enqueued-time": time.Now(), "x-opt-locked-until": time.Now(), "x-opt-message-state": int32(0)} {
		annotate(c, name, value)
	}
	c.Header.DeliveryCount, c.DeliveryTag = 5, []byte("tag")
	c.DeliveryAnnotations = map[any]any{"x-opt-lock-token": amqp.UUID{1}}
	return c
}

func randomMessage(r *rand.Rand, now time.Time) *Message {
	m := &Message{Properties: &azservicebus.AMQPAnnotatedMessageProperties{
		MessageID:     []any{"id", uint64(7), amqp.UUID{1, 2}, []byte("id")}[r.IntN(4)],
		CorrelationID: []any{nil, "id", uint64(7), amqp.UUID{1, 2}, []byte("id")}[r.IntN(5)],
		UserID:        []byte("user"),
	}}
	p := m.Properties
	for _, field := range []**string{&p.ContentEncoding, &p.ContentType, &p.GroupID, &p.ReplyTo, &p.ReplyToGroupID, &p.Subject, &p.To} {
		if r.IntN(2) == 0 {
			*field = new(fmt.Sprint("value ", r.IntN(100)))
		}
	}
	if r.IntN(2) == 0 {
		p.GroupSequence, p.CreationTime = new(r.Uint32()), new(now)
	}
	if r.IntN(4) == 0 {
		p.AbsoluteExpiryTime = new(now.Add(2 * time.Hour))
	}
	if r.IntN(2) == 0 {
		m.Header = &azservicebus.AMQPAnnotatedMessageHeader{Durable: r.IntN(2) == 0, Priority: uint8(r.IntN(10))}
		if r.IntN(2) == 0 {
			m.Header.TTL = time.Hour + time.Duration(r.IntN(1000))*time.Millisecond
		}
	}
	if r.IntN(4) == 0 {
		annotate(m, ScheduledTime, now.Add(time.Duration(r.IntN(100))*time.Minute))
	}
	if r.IntN(2) == 0 && p.GroupID == nil {
		annotate(m, PartitionKey, "key")
	}
	for i := range r.IntN(4) {
		annotate(m, fmt.Sprint("annotation", i), randomValue(r, now))
	}
	if r.IntN(2) == 0 {
		m.ApplicationProperties, m.Footer = map[string]any{}, map[any]any{}
		for i := range r.IntN(10) {
			m.ApplicationProperties[fmt.Sprint("p", i)] = randomValue(r, now)
			m.Footer[fmt.Sprint("f", i)] = randomValue(r, now)
		}
	}
	switch r.IntN(4) {
	case 0:
		m.Body.Data = [][]byte{[]byte("one")}
	case 1:
		m.Body.Data = [][]byte{[]byte("one"), {}, []byte("two")}
	case 2:
		m.Body.Sequence = [][]any{{"a", int64(1), randomValue(r, now)}, {}}
	case 3:
		m.Body.Value = []any{"text", int64(5), map[any]any{"a": randomValue(r, now)}, []any{true, nil}}[r.IntN(4)]
	}
	return m
}

func randomValue(r *rand.Rand, now time.Time) any {
	return []any{
		"text", "", true, int8(-1), int16(-2), int32(-3), int64(-4), uint8(1), uint16(2), uint32(3), uint64(4),
		float32(1.5), 2.5, now.Add(time.Duration(r.IntN(1000)) * time.Second), amqp.UUID{9}, []byte("bytes"), amqp.Symbol("symbol"), nil,
	}[r.IntN(18)]
}

func TestBrokenEnvelopes(t *testing.T) {
	now := time.Now()
	for name, properties := range map[string]map[string]any{
		"none":            nil,
		"path type":       {propPath: 5},
		"path empty":      {propPath: ""},
		"path invalid":    {propPath: "a b"},
		"session type":    {propPath: "a", propSession: []byte("s")},
		"ttl alone":       {propPath: "a", propTTL: int64(5)},
		"expiry alone":    {propPath: "a", propExpires: now},
		"ttl type":        {propPath: "a", propTTL: "5", propExpires: now},
		"ttl negative":    {propPath: "a", propTTL: int64(-5), propExpires: now.Add(time.Hour)},
		"schedule type":   {propPath: "a", propScheduled: "soon"},
		"absolute expiry": {propPath: "a", propAbsolute: int64(0)},
	} {
		if _, _, err := unseal(&Message{ApplicationProperties: properties}, now); err == nil || err == errExpired {
			t.Errorf("%s: got %v, want an error", name, err)
		}
	}
	if _, _, err := unseal(&Message{ApplicationProperties: map[string]any{propPath: "a", propTTL: int64(5), propExpires: now}}, now); err != errExpired {
		t.Errorf("got %v, want errExpired", err)
	}
}

// FuzzUnseal opens envelopes from arbitrary messages in the encoding of AMQP.
func FuzzUnseal(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for range 20 {
		sealed := seal("some/path", clone(randomMessage(r, now)), now)
		data, err := (&amqp.Message{ApplicationProperties: sealed.ApplicationProperties, Annotations: sealed.MessageAnnotations, Data: [][]byte{[]byte("a")}}).MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var decoded amqp.Message
		if decoded.UnmarshalBinary(data) != nil {
			return
		}
		m := &Message{ApplicationProperties: decoded.ApplicationProperties, MessageAnnotations: decoded.Annotations, Body: azservicebus.AMQPAnnotatedMessageBody{Data: decoded.Data}}
		entity, opened, err := unseal(m, now)
		if err != nil {
			return
		}
		for name := range envelopeNames {
			if _, ok := opened.ApplicationProperties[name]; ok {
				t.Errorf("%q is left", name)
			}
		}
		// What is open can be sealed again, with the same result.
		again, reopened, err := unseal(seal(entity, opened, now), now)
		if err != nil || again != entity {
			t.Fatalf("sealed again: %q, %v, want %q", again, err, entity)
		}
		if opened.Header.TTL != reopened.Header.TTL {
			t.Errorf("the time to live changed from %v to %v", opened.Header.TTL, reopened.Header.TTL)
		}
	})
}
