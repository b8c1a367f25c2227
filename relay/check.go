package relay

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

const (
	maxID = 128 // characters of a message ID, session ID or partition key

	maxProperty   = 32 << 10 // bytes of an application property with its name
	maxProperties = 64 << 10 // bytes of all sections before the body

	// headroom is how much larger the envelope can make a message: a path, four
	// times, and the names and types of six properties.
	headroom = 1 << 10
)

// checked returns a copy of the message as it is to be sent, or an error of the
// class Invalid or TooLarge. The copy has a message ID, and no schedule that is
// over. It can be sent to the primary and to a backlog queue alike, so what is
// accepted does not depend on the state of the entity.
func checked(entity string, m *Message, maxBytes int, now time.Time) (*Message, error) {
	if err := CheckEntity(entity); err != nil {
		return nil, invalid("%w", err)
	}
	if m == nil {
		return nil, invalid("there is no message")
	}
	c := clone(m)
	if c.Properties.MessageID == nil {
		c.Properties.MessageID = rand.Text()
	}
	if err := errors.Join(checkProperties(c), checkApplication(c), checkAnnotations(c), checkBody(&c.Body)); err != nil {
		return nil, &Error{Class: Invalid, Err: err}
	}
	if at, ok := annotation(c, ScheduledTime); ok && !at.(time.Time).After(now) {
		deleteAnnotation(c, ScheduledTime)
	}
	size, err := sizeOf(c)
	if err != nil {
		return nil, invalid("the message has a value that AMQP cannot encode: %w", err)
	}
	if size > maxBytes-headroom {
		return nil, &Error{Class: TooLarge, Err: fmt.Errorf("the message has %d bytes, the maximum is %d", size, maxBytes-headroom)}
	}
	before := *c
	before.Body, before.Footer = azservicebus.AMQPAnnotatedMessageBody{}, nil
	if size, err = sizeOf(&before); err != nil || size > maxProperties-headroom {
		return nil, &Error{Class: TooLarge, Err: fmt.Errorf("the properties and annotations have %d bytes, the maximum is %d", size, maxProperties-headroom)}
	}
	return c, nil
}

func invalid(format string, args ...any) error {
	return &Error{Class: Invalid, Err: fmt.Errorf(format, args...)}
}

func checkProperties(m *Message) error {
	p := m.Properties
	n := 1 // bytes
	switch id := p.MessageID.(type) {
	case string:
		n = len(id)
	case []byte:
		n = len(id)
	case uint64, amqp.UUID:
	default:
		return fmt.Errorf("the message ID has the type %T: use a string, UUID, uint64 or bytes", id)
	}
	if n == 0 || n > maxID {
		return fmt.Errorf("the message ID has %d bytes: use 1 to %d", n, maxID)
	}
	switch id := p.CorrelationID.(type) {
	case nil, string, []byte, uint64, amqp.UUID:
	default:
		return fmt.Errorf("the correlation ID has the type %T: use a string, UUID, uint64 or bytes", id)
	}
	if p.GroupID != nil && len(*p.GroupID) > maxID {
		return fmt.Errorf("the session ID has %d bytes, the maximum is %d", len(*p.GroupID), maxID)
	}
	if p.ReplyToGroupID != nil && len(*p.ReplyToGroupID) > maxID {
		return fmt.Errorf("the session ID for replies has %d bytes, the maximum is %d", len(*p.ReplyToGroupID), maxID)
	}
	if ttl := m.Header.TTL; ttl != 0 && ttl < time.Millisecond || ttl > maxTTL {
		return fmt.Errorf("the time to live is %v: use 1ms to %v, or none", ttl, maxTTL)
	}
	return nil
}

func checkApplication(m *Message) error {
	for name, value := range m.ApplicationProperties {
		if _, ok := envelopeNames[name]; ok {
			return fmt.Errorf("the application property %q is reserved for the relay", name)
		}
		size := len(name) + 16 // no other type has more than 16 bytes
		switch v := value.(type) {
		case string:
			size = len(name) + len(v)
		case []byte:
			size = len(name) + len(v)
		case amqp.Symbol:
			size = len(name) + len(v)
		case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, time.Time, amqp.UUID:
		default:
			return fmt.Errorf("the application property %.100q has the type %T: use a string, number, bool, time, UUID or bytes", name, value)
		}
		// The length of a value takes up to 5 bytes. Service Bus answers a
		// property that is too large as if it had a fault of its own.
		if size > maxProperty-5 {
			return fmt.Errorf("the application property %.100q has %d bytes with its name, the maximum is %d", name, size, maxProperty-5)
		}
		// The SDK panics when it receives these with other types.
		if _, ok := value.(string); !ok && (name == "DeadLetterReason" || name == "DeadLetterErrorDescription") {
			return fmt.Errorf("the application property %q has the type %T: use a string", name, value)
		}
	}
	return nil
}

// checkAnnotations checks those that Service Bus reads. The SDK panics when it
// receives them with other types.
func checkAnnotations(m *Message) error {
	if at, ok := annotation(m, ScheduledTime); ok {
		if _, isTime := at.(time.Time); !isTime {
			return fmt.Errorf("the annotation %q has the type %T: use a time", ScheduledTime, at)
		}
	}
	for _, name := range []string{PartitionKey, viaPartitionKey} {
		value, ok := annotation(m, name)
		if !ok {
			continue
		}
		key, isString := value.(string)
		switch session := m.Properties.GroupID; {
		case !isString:
			return fmt.Errorf("the annotation %q has the type %T: use a string", name, value)
		case len(key) > maxID:
			return fmt.Errorf("the annotation %q has %d bytes, the maximum is %d", name, len(key), maxID)
		case name == PartitionKey && session != nil && key != *session:
			return fmt.Errorf("the annotation %q differs from the session ID: use the same or none", name)
		}
	}
	return nil
}

// checkBody also removes a body without sections.
func checkBody(b *azservicebus.AMQPAnnotatedMessageBody) error {
	if len(b.Data) == 0 {
		b.Data = nil
	}
	if len(b.Sequence) == 0 {
		b.Sequence = nil
	}
	kinds := 0
	for _, has := range []bool{b.Data != nil, b.Sequence != nil, b.Value != nil} {
		if has {
			kinds++
		}
	}
	if kinds > 1 {
		return errors.New("the body has more than one kind of section: use data, sequences or a value")
	}
	return nil
}

// sizeOf returns the encoded size of a message.
func sizeOf(m *Message) (size int, err error) {
	defer func() {
		if p := recover(); p != nil { // such as on a nil pointer
			err = fmt.Errorf("a value is invalid: %v", p)
		}
	}()
	p := m.Properties
	data, err := (&amqp.Message{
		Header: &amqp.MessageHeader{Durable: m.Header.Durable, Priority: m.Header.Priority, TTL: m.Header.TTL},
		Properties: &amqp.MessageProperties{
			MessageID: p.MessageID, UserID: p.UserID, To: p.To, Subject: p.Subject, ReplyTo: p.ReplyTo,
			CorrelationID: p.CorrelationID, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding,
			AbsoluteExpiryTime: p.AbsoluteExpiryTime, CreationTime: p.CreationTime,
			GroupID: p.GroupID, GroupSequence: p.GroupSequence, ReplyToGroupID: p.ReplyToGroupID,
		},
		Annotations:           m.MessageAnnotations,
		ApplicationProperties: m.ApplicationProperties,
		Data:                  m.Body.Data,
		Sequence:              m.Body.Sequence,
		Value:                 m.Body.Value,
		Footer:                m.Footer,
	}).MarshalBinary()
	return len(data), err
}
