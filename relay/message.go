package relay

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// The sections of AMQP, with their names in the SDK.
type (
	// Message is a message with all sections of AMQP.
	Message = azservicebus.AMQPAnnotatedMessage

	Properties = azservicebus.AMQPAnnotatedMessageProperties
	Header     = azservicebus.AMQPAnnotatedMessageHeader
	Body       = azservicebus.AMQPAnnotatedMessageBody
)

const (
	maxEntity = 260 // characters of an entity's path
	maxTTL    = math.MaxUint32 * time.Millisecond
)

// Names of annotations that a caller may set.
const (
	ScheduledTime = "x-opt-scheduled-enqueue-time" // time.Time: when the message appears in its entity
	PartitionKey  = "x-opt-partition-key"          // string: chooses a partition
)

// viaPartitionKey is an annotation that chooses a partition, as does
// [PartitionKey].
const viaPartitionKey = "x-opt-via-partition-key"

// brokerAnnotations are those that Service Bus adds to a delivery. They belong
// to one stay in a queue, as does [ScheduledTime] of a received message.
var brokerAnnotations = []string{
	"x-opt-sequence-number", "x-opt-enqueue-sequence-number", "x-opt-enqueued-time", "x-opt-locked-until", "x-opt-lock-token",
	"x-opt-message-state", "x-opt-deadletter-source",
}

// entityName follows the rules of Service Bus.
var entityName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$`)

// CheckEntity returns an error if a name is not that of a queue or topic.
func CheckEntity(name string) error {
	if len(name) > maxEntity || !entityName.MatchString(name) {
		return fmt.Errorf("the entity name %.300q is invalid: use at most %d letters, digits, '.', '-', '_' and '/', with a letter or digit at both ends", name, maxEntity)
	}
	return nil
}

// clone copies the parts that the relay changes: never the caller's message.
// Properties and Header of the copy are not nil.
func clone(m *Message) *Message {
	c := &Message{
		Body:   m.Body,
		Footer: m.Footer,

		ApplicationProperties: maps.Clone(m.ApplicationProperties),
		MessageAnnotations:    maps.Clone(m.MessageAnnotations),

		Header:     &azservicebus.AMQPAnnotatedMessageHeader{Priority: 4}, // the default of AMQP
		Properties: &azservicebus.AMQPAnnotatedMessageProperties{},
	}
	if m.Properties != nil {
		*c.Properties = *m.Properties
	}
	if m.Header != nil {
		*c.Header = *m.Header
	}
	// These belong to one delivery.
	c.Header.DeliveryCount, c.Header.FirstAcquirer = 0, false
	for _, name := range brokerAnnotations {
		deleteAnnotation(c, name)
	}
	return c
}

// annotation returns a message annotation. Its key is a string or a symbol.
func annotation(m *Message, name string) (any, bool) {
	if v, ok := m.MessageAnnotations[name]; ok {
		return v, true
	}
	v, ok := m.MessageAnnotations[amqp.Symbol(name)]
	return v, ok
}

func annotate(m *Message, name string, value any) {
	if m.MessageAnnotations == nil {
		m.MessageAnnotations = make(map[any]any)
	}
	m.MessageAnnotations[name] = value
}

func deleteAnnotation(m *Message, name string) {
	delete(m.MessageAnnotations, name)
	delete(m.MessageAnnotations, amqp.Symbol(name))
}
