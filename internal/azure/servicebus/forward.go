package servicebus

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"kennel/internal/azure/identity"
	"kennel/relay"
)

// brokerAnnotations are the annotations that a bus adds to a message. They
// describe its stay in one queue. All others belong to the sender, even those
// whose names begin with x-opt-, which other protocols use.
var brokerAnnotations = []string{
	"x-opt-sequence-number", "x-opt-enqueue-sequence-number", "x-opt-enqueued-time", "x-opt-locked-until", "x-opt-lock-token",
	"x-opt-message-state", "x-opt-deadletter-source", "x-opt-scheduled-enqueue-time",
}

// forwardable returns a received message as its sender wrote it.
func forwardable(m *relay.Message) *relay.Message {
	forward := *m
	forward.DeliveryTag = nil
	forward.DeliveryAnnotations = nil // they are for one hop
	if m.Header != nil {
		header := *m.Header
		header.DeliveryCount, header.FirstAcquirer = 0, false
		forward.Header = &header
	}
	forward.MessageAnnotations = maps.Clone(m.MessageAnnotations)
	for _, name := range brokerAnnotations {
		delete(forward.MessageAnnotations, name)
	}
	return &forward
}

// prepared returns a copy of a message that the SDK can send, or an error if the
// message cannot be encoded. The SDK reports that like a lost connection.
func prepared(m *relay.Message) (*relay.Message, error) {
	prepared := *m
	prepared.DeliveryTag = nil // otherwise messages with one tag are taken for one delivery
	properties := azservicebus.AMQPAnnotatedMessageProperties{}
	if m.Properties != nil {
		properties = *m.Properties
	}
	if properties.MessageID == nil {
		properties.MessageID = rand.Text()
	}
	prepared.Properties = &properties
	if b := m.Body; b.Data == nil && b.Sequence == nil && b.Value == nil {
		prepared.Body.Value = amqp.Null{} // a message must have a body; the SDK returns null as none
	}
	if err := encodable(&prepared); err != nil {
		return nil, &relay.Error{Class: relay.Invalid, Unsent: true, Err: errors.New("encode the message for Service Bus: " + identity.OneLine(err))}
	}
	return &prepared, nil
}

// encodable encodes all that may have a type that AMQP lacks.
func encodable(m *relay.Message) (err error) {
	defer func() {
		if p := recover(); p != nil { // such as on a nil pointer
			err = fmt.Errorf("a value is invalid: %v", p)
		}
	}()
	_, err = (&amqp.Message{
		DeliveryAnnotations:   m.DeliveryAnnotations,
		Annotations:           m.MessageAnnotations,
		Properties:            &amqp.MessageProperties{MessageID: m.Properties.MessageID, CorrelationID: m.Properties.CorrelationID},
		ApplicationProperties: m.ApplicationProperties,
		Value:                 m.Body.Value,
		Sequence:              m.Body.Sequence,
		Footer:                m.Footer,
	}).MarshalBinary()
	return err
}
