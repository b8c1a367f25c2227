package relay_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"kennel/relay"
)

// with returns a message that was changed.
func with(change func(m *relay.Message)) *relay.Message {
	m := text("a")
	change(m)
	return m
}

func property(name string, value any) *relay.Message {
	return with(func(m *relay.Message) { m.ApplicationProperties = map[string]any{name: value} })
}

func annotated(name any, value any) *relay.Message {
	return with(func(m *relay.Message) { m.MessageAnnotations = map[any]any{name: value} })
}

// A bad message is refused at once and alike, whether or not the primary works.
func TestBadMessagesAreRefused(t *testing.T) {
	session, long := "s", strings.Repeat("x", 129)
	invalid := map[string]*relay.Message{
		"missing":                      nil,
		"reserved property":            property("x-ms-path", "x"),
		"dead-letter reason":           property("DeadLetterReason", 5),
		"property of unknown type":     property("a", struct{}{}),
		"property with a map":          property("a", map[string]any{}),
		"property with a list":         property("a", []any{1}),
		"property with a pointer":      property("a", new(int)),
		"property with bad text":       property("a", "\xff"),
		"property with a bad name":     property("\xff", "a"),
		"large text":                   property("a", strings.Repeat("x", 32<<10-5)),
		"large bytes":                  property("a", make([]byte, 32<<10-5)),
		"large symbol":                 property("a", amqp.Symbol(strings.Repeat("x", 32<<10-5))),
		"large name":                   property(strings.Repeat("x", 32<<10), nil),
		"partition key of wrong type":  annotated("x-opt-partition-key", 5),
		"partition key without value":  annotated(amqp.Symbol("x-opt-partition-key"), nil),
		"long partition key":           annotated("x-opt-partition-key", long),
		"via partition of wrong type":  annotated("x-opt-via-partition-key", []byte("x")),
		"schedule of wrong type":       annotated("x-opt-scheduled-enqueue-time", "now"),
		"schedule of wrong type again": annotated(amqp.Symbol("x-opt-scheduled-enqueue-time"), int64(0)),
		"annotation of unknown type":   annotated("x", struct{}{}),
		"annotation with a nil":        annotated("x", (*int)(nil)),
		"negative time to live":        with(func(m *relay.Message) { m.Header = header(-time.Second) }),
		"tiny time to live":            with(func(m *relay.Message) { m.Header = header(time.Microsecond) }),
		"endless time to live":         with(func(m *relay.Message) { m.Header = header(50 * 24 * time.Hour) }),
		"empty message ID":             with(func(m *relay.Message) { m.Properties.MessageID = "" }),
		"long message ID":              with(func(m *relay.Message) { m.Properties.MessageID = []byte(long) }),
		"message ID of wrong type":     with(func(m *relay.Message) { m.Properties.MessageID = 5 }),
		"correlation ID of wrong type": with(func(m *relay.Message) { m.Properties.CorrelationID = 5 }),
		"long session":                 with(func(m *relay.Message) { m.Properties.GroupID = &long }),
		"long session for replies":     with(func(m *relay.Message) { m.Properties.ReplyToGroupID = &long }),
		"two bodies":                   with(func(m *relay.Message) { m.Body.Value = "x" }),
		"body of unknown type": with(func(m *relay.Message) {
			m.Body = azservicebus.AMQPAnnotatedMessageBody{Value: make(chan int)}
		}),
		"session and another partition": with(func(m *relay.Message) {
			m.Properties.GroupID = &session
			m.MessageAnnotations = map[any]any{"x-opt-partition-key": "p"}
		}),
	}
	large := map[string]*relay.Message{
		"body": with(func(m *relay.Message) { m.Body.Data = [][]byte{make([]byte, 256<<10-1<<10)} }),
		"properties": with(func(m *relay.Message) {
			m.ApplicationProperties = map[string]any{"a": make([]byte, 32400), "b": make([]byte, 32400)}
		}),
		"annotations": annotated("x", make([]byte, 64600)),
	}
	for _, f := range []fault{none, refuse} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, &relay.Options{Interval: atOnce})
			defer p.close(t)
			p.primary.set(always(f))
			check := func(want relay.Class, messages map[string]*relay.Message) {
				for name, m := range messages {
					_, err := p.send(time.Minute, "orders", m)
					if failure, ok := errors.AsType[*relay.SendError](err); !ok || failure.Class != want || failure.Unclear {
						t.Errorf("%s, %v: got %v, want the class %v", name, f, err, want)
					}
				}
			}
			check(relay.Invalid, invalid)
			check(relay.TooLarge, large)
			for _, entity := range []string{"", "/a", "a/", "a b", "a?b", strings.Repeat("a", 261)} {
				_, err := p.send(time.Minute, entity, text("a"))
				if failure, ok := errors.AsType[*relay.SendError](err); !ok || failure.Class != relay.Invalid {
					t.Errorf("the name %q: got %v, want the class %v", entity, err, relay.Invalid)
				}
			}
		})
	}
}

// A message that passes arrives, whether or not the primary works.
func TestGoodMessagesArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		good := []*relay.Message{
			{}, // gets an ID
			property("a", nil),
			property("a", strings.Repeat("x", 32<<10-6)),
			annotated(amqp.Symbol("x-opt-partition-key"), "p"),
			annotated("x-opt-sequence-number", "of another queue"), // is left out
			annotated("x-opt-scheduled-enqueue-time", time.Now().Add(-time.Hour)),
			annotated("x-opt-scheduled-enqueue-time", time.Time{}),
			with(func(m *relay.Message) { m.Header = header(0) }),
			with(func(m *relay.Message) { m.Body.Data = [][]byte{} }),
		}
		for i, m := range good {
			if r, err := p.send(time.Minute, "orders", m); err != nil || r.Backlog || r.MessageID == nil {
				t.Errorf("message %d: %+v, %v", i, r, err)
			}
		}
		p.fill(t, "orders", good...)
		s := p.syphon(nil)
		defer s.Close(t.Context())
		if r := drain(t, s); r.Moved != int64(len(good)) {
			t.Errorf("%+v, want %d moved", r, len(good))
		}
		for _, m := range p.primary.got("orders") {
			for _, name := range []string{"x-opt-sequence-number", "x-opt-scheduled-enqueue-time"} {
				if v, ok := m.MessageAnnotations[name]; ok {
					t.Errorf("a message has %s = %v", name, v)
				}
			}
		}
	})
}

// The largest message is the same in both modes, and fits into the backlog.
func TestFailureMode18NearlyTooLarge(t *testing.T) {
	const most = 256 << 10
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		entity := strings.Repeat("e", 260)
		p.primary.entities[entity] = &store{}
		session := strings.Repeat("s", 128)
		m := text("a")
		m.Properties.GroupID = &session
		m.Header = header(time.Hour)
		m.MessageAnnotations = map[any]any{"x-opt-scheduled-enqueue-time": time.Now().Add(time.Hour)}
		largest := func() int {
			low, high := 0, most
			for low < high {
				n := (low + high + 1) / 2
				m.Body.Data = [][]byte{make([]byte, n)}
				_, err := p.send(time.Minute, entity, m)
				failure, ok := errors.AsType[*relay.SendError](err)
				switch {
				case err == nil:
					low = n
				case ok && failure.Class == relay.TooLarge:
					high = n - 1
				default:
					t.Fatal(err)
				}
			}
			return low
		}
		healthy := largest()
		p.primary.set(always(refuse))
		if failedOver := largest(); failedOver != healthy {
			t.Errorf("a body may have %d bytes, and %d after failover", healthy, failedOver)
		}
		stored := 0
		for _, q := range queues {
			for _, m := range p.secondary.got(q) {
				stored++
				if n, err := relay.SizeOf(m); err != nil || n > most {
					t.Errorf("a message in the backlog has %d bytes, %v", n, err)
				}
			}
		}
		if stored == 0 || healthy < most-2<<10 {
			t.Errorf("%d messages in the backlog, at most %d bytes", stored, healthy)
		}
	})
}
