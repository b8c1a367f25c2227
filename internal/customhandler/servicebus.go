package customhandler

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// ServiceBusMessage is a Service Bus message on its way through a Service Bus trigger.
// All but Text is advisory: a payload may have replaced it (see Metadata), and an administrator's run leaves it zero.
type ServiceBusMessage struct {
	Text             string // the body as UTF-8; in a batch without dataType "string" the body as JSON, see ServiceBusBatch
	MessageID        string
	SequenceNumber   int64
	DeliveryCount    int64
	LockToken        string // of no use here: only the host's own link can settle the message
	ContentType      string
	CorrelationID    string
	Subject          string
	To               string
	ReplyTo          string
	ReplyToSessionID string
	SessionID        string
	PartitionKey     string
	DeadLetterSource string
	Enqueued         time.Time
	Expires          time.Time
	Properties       map[string]any // the application's own, of what JSON can hold; numbers arrive as json.Number
	Metadata         Metadata       // as received, in a batch for all its messages; ignored when an envelope is built
}

func decodeServiceBus(e Envelope, binding string) (ServiceBusMessage, error) {
	raw, err := e.data(binding)
	if err != nil {
		return ServiceBusMessage{}, err
	}
	m := describeServiceBus(e.Metadata)
	m.Text = textOf(raw)
	m.Metadata = e.Metadata
	return m, nil
}

// describeServiceBus reads one message's metadata. The host also sends its client objects, serialised as far as .NET
// managed to; they are never looked at.
func describeServiceBus(md Metadata) ServiceBusMessage {
	return ServiceBusMessage{
		MessageID:        md.Text("MessageId"),
		SequenceNumber:   md.Int("SequenceNumber"),
		DeliveryCount:    md.Int("DeliveryCount"),
		LockToken:        md.Text("LockToken"),
		ContentType:      md.Text("ContentType"),
		CorrelationID:    md.Text("CorrelationId"),
		Subject:          cmp.Or(md.Text("Subject"), md.Text("Label")),
		To:               md.Text("To"),
		ReplyTo:          md.Text("ReplyTo"),
		ReplyToSessionID: md.Text("ReplyToSessionId"),
		SessionID:        md.Text("SessionId"),
		PartitionKey:     md.Text("PartitionKey"),
		DeadLetterSource: md.Text("DeadLetterSource"),
		Enqueued:         cmp.Or(md.Time("EnqueuedTime"), md.Time("EnqueuedTimeUtc")),
		Expires:          cmp.Or(md.Time("ExpiresAt"), md.Time("ExpiresAtUtc")),
		Properties:       properties(cmp.Or(md.Text("ApplicationProperties"), md.Text("UserProperties"))),
	}
}

// decodeServiceBusBatch reads what a trigger with cardinality "many" sends: one string with a JSON array, and
// metadata whose names end in Array.
func decodeServiceBusBatch(e Envelope, binding string) ([]ServiceBusMessage, error) {
	raw, err := e.data(binding)
	if err != nil {
		return nil, err
	}
	var bodies []json.RawMessage
	if err := json.Unmarshal([]byte(textOf(raw)), &bodies); err != nil {
		return nil, errEnvelope(fmt.Sprintf("binding %q holds no JSON array, which cardinality \"many\" in function.json sends: %v", binding, err))
	}
	each := spread(e.Metadata, len(bodies))
	messages := make([]ServiceBusMessage, len(bodies))
	for i, body := range bodies {
		messages[i] = describeServiceBus(each[i])
		messages[i].Text = elementText(body)
		messages[i].Metadata = e.Metadata
	}
	return messages, nil
}

// spread deals the arrays of a batch's metadata out to its n messages. An array of another length says nothing about
// single messages and is left out.
func spread(md Metadata, n int) []Metadata {
	each := make([]Metadata, n)
	for i := range each {
		each[i] = Metadata{}
	}
	for name, raw := range md {
		single, ok := cutSuffixFold(name, "Array")
		if !ok {
			continue
		}
		var values []json.RawMessage
		if err := json.Unmarshal([]byte(textOf(raw)), &values); err != nil || len(values) != n {
			continue
		}
		for i, value := range values {
			each[i][single] = value
		}
	}
	return each
}

// elementText is the text of one element of an array: a string as it is, anything else as JSON.
func elementText(raw json.RawMessage) string {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return string(raw)
	}
	return s
}

func properties(text string) map[string]any {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil || len(m) == 0 {
		return nil
	}
	return m
}

func cutSuffixFold(s, suffix string) (string, bool) {
	at := len(s) - len(suffix)
	if at < 0 || !strings.EqualFold(s[at:], suffix) {
		return s, false
	}
	return s[:at], true
}
