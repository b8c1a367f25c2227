package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/relay"
)

// The headers of a message. Both are JSON objects.
const (
	BrokerProperties  = "BrokerProperties"  // as in the REST API of Service Bus
	MessageProperties = "Kennel-Properties" // application properties
)

// maxTTL is the longest time to live: AMQP counts milliseconds in 32 bits.
const maxTTL = math.MaxUint32 * time.Millisecond

// brokerHeader is the header BrokerProperties.
type brokerHeader struct {
	MessageID     *string `json:"MessageId"`
	SessionID     *string `json:"SessionId"`
	PartitionKey  *string
	Label         *string
	CorrelationID *string `json:"CorrelationId"`
	To            *string
	ReplyTo       *string
	TimeToLive    *float64 // seconds
	ScheduledAt   *string  `json:"ScheduledEnqueueTimeUtc"`
}

// messageOf reads the headers of a message. Its error has the code of the header
// that is invalid.
func messageOf(h http.Header) (*relay.Message, error) {
	m := &relay.Message{Properties: &relay.Properties{}, Header: &relay.Header{Priority: 4}} // the default of AMQP
	if kind := h.Get("Content-Type"); kind != "" {
		if strings.ContainsFunc(kind, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, edge.BadRequest("bad_message", "The Content-Type has characters that are not visible ASCII.")
		}
		m.Properties.ContentType = &kind
	}
	if err := readBrokerProperties(h, m); err != nil {
		return nil, edge.BadRequest("bad_broker_properties", "The header "+BrokerProperties+" is invalid: "+err.Error()+".")
	}
	if err := readMessageProperties(h, m); err != nil {
		return nil, edge.BadRequest("bad_properties", "The header "+MessageProperties+" is invalid: "+err.Error()+".")
	}
	return m, nil
}

// headerOf decodes a header of JSON. It returns false if there is none.
func headerOf(h http.Header, name string, v any) (bool, error) {
	values := h.Values(name)
	switch {
	case len(values) == 0:
		return false, nil
	case len(values) > 1:
		return false, errors.New("it was sent more than once")
	}
	return true, customhandler.DecodeJSON(values[0], v)
}

func readBrokerProperties(h http.Header, m *relay.Message) error {
	var b brokerHeader
	if _, err := headerOf(h, BrokerProperties, &b); err != nil {
		return err
	}
	for _, id := range []struct {
		name  string
		value *string
	}{{"MessageId", b.MessageID}, {"SessionId", b.SessionID}, {"PartitionKey", b.PartitionKey}} {
		if id.value != nil && (*id.value == "" || len(*id.value) > maxMessageID) {
			return fmt.Errorf("%s has %d bytes; use 1 to %d, or omit it", id.name, len(*id.value), maxMessageID)
		}
	}
	p := m.Properties
	if b.MessageID != nil {
		p.MessageID = *b.MessageID
	}
	if b.CorrelationID != nil {
		p.CorrelationID = *b.CorrelationID
	}
	p.GroupID, p.Subject, p.To, p.ReplyTo = b.SessionID, b.Label, b.To, b.ReplyTo
	m.MessageAnnotations = make(map[any]any)
	if b.PartitionKey != nil {
		if b.SessionID != nil && *b.SessionID != *b.PartitionKey {
			return errors.New("PartitionKey differs from SessionId; send the same or one of them")
		}
		m.MessageAnnotations[relay.PartitionKey] = *b.PartitionKey
	}
	if b.TimeToLive != nil {
		ttl := math.Round(*b.TimeToLive * 1000) // milliseconds
		if ttl < 1 || ttl > float64(maxTTL.Milliseconds()) {
			return fmt.Errorf("TimeToLive is %v; use 0.001 to %.3f seconds, or omit it", *b.TimeToLive, maxTTL.Seconds())
		}
		m.Header.TTL = time.Duration(ttl) * time.Millisecond
	}
	if b.ScheduledAt != nil {
		at, err := scheduleOf(*b.ScheduledAt)
		if err != nil {
			return err
		}
		m.MessageAnnotations[relay.ScheduledTime] = at
	}
	return nil
}

// maxMessageID is the maximum of bytes of a message ID, session ID or partition
// key.
const maxMessageID = 128

// scheduleOf parses a time as the REST API of Service Bus writes it, or in RFC
// 3339. Other zones than GMT are ambiguous in the first one. AMQP counts from
// 1970, and Service Bus has no times after 9999.
func scheduleOf(text string) (time.Time, error) {
	at, err := time.Parse(http.TimeFormat, text)
	if err != nil {
		at, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return at, fmt.Errorf("ScheduledEnqueueTimeUtc is %.64q; use a time such as 2026-01-02T03:04:05Z or Fri, 02 Jan 2026 03:04:05 GMT", text)
	}
	if year := at.UTC().Year(); year < 1970 || year > 9999 {
		return at, fmt.Errorf("ScheduledEnqueueTimeUtc is %.64q; use a time of the years 1970 to 9999, in UTC", text)
	}
	return at.UTC(), nil
}

func readMessageProperties(h http.Header, m *relay.Message) error {
	var all map[string]json.RawMessage
	given, err := headerOf(h, MessageProperties, &all)
	if err != nil || !given {
		return err
	}
	if all == nil {
		return errors.New("it is null instead of an object")
	}
	m.ApplicationProperties = make(map[string]any, len(all))
	for name, text := range all {
		value, err := propertyOf(text)
		if err != nil {
			return fmt.Errorf("property %.128q %w", name, err)
		}
		if name == "" {
			return errors.New("the name of a property is empty")
		}
		m.ApplicationProperties[name] = value
	}
	return nil
}

// propertyOf returns the value of an application property. A number with a point
// or an exponent is a double, as is an integer that has more than 64 bits.
func propertyOf(text json.RawMessage) (any, error) {
	switch text[0] {
	case '"':
		var s string
		err := json.Unmarshal(text, &s)
		return s, err
	case 't', 'f':
		return text[0] == 't', nil
	case '{', '[', 'n':
		kinds := map[byte]string{'{': "an object", '[': "an array", 'n': "null"}
		return nil, fmt.Errorf("is %s; use a string, a number or a boolean", kinds[text[0]])
	}
	if !slices.ContainsFunc(text, func(b byte) bool { return b == '.' || b == 'e' || b == 'E' }) {
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return n, nil
		}
	}
	return strconv.ParseFloat(string(text), 64)
}
