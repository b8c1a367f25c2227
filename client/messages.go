package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// Message is a message for a queue or topic of Service Bus. Empty and zero
// fields mean none.
type Message struct {
	Body        []byte
	ContentType string // only with a body

	// ID names the message. SendMessage makes one if it is empty, so that
	// duplicate detection recognizes a message that was sent twice.
	ID string

	SessionID     string
	PartitionKey  string
	Subject       string // Service Bus also calls it the label
	CorrelationID string
	To            string
	ReplyTo       string

	TimeToLive  time.Duration // in whole milliseconds
	ScheduledAt time.Time     // when the message appears; a time in the past means at once

	// Properties are the application properties: strings, booleans, integers of
	// the types int and int64, and float64.
	Properties map[string]any
}

// SentMessage is a message that is stored.
type SentMessage struct {
	MessageID string `json:"messageId"`
	SentTo    string `json:"sentTo"` // SentToPrimary or SentToBacklog

	received
}

// The values of [SentMessage.SentTo].
const (
	SentToPrimary = "primary" // the message is in its queue or topic
	SentToBacklog = "backlog" // it will be: the primary namespace does not work
)

// sendTime is how long the app tries to send a message, or to move the backlog.
// So a failed call is repeated once if the app took that long, and more often
// only if it failed at once, as an instance that stops.
const (
	sendTime     = 30 * time.Second
	repeatWithin = 2 * sendTime
)

// SendMessage sends a message to an entity, a queue or topic of the app's
// Service Bus namespace. If the answer is lost (ErrUnclear), the message may be
// stored: sending it again with the same ID is safe where the entity detects
// duplicates.
func (c *Client) SendMessage(ctx context.Context, entity string, m Message) (s SentMessage, err error) {
	if err := checkName("entity", entity); err != nil {
		return s, err
	}
	if strings.Contains(entity, "~") {
		return s, invalidf("the name of the entity %.300q has a ~, which no entity has", entity)
	}
	if m.ID == "" {
		m.ID = rand.Text()
	}
	r := request{
		method:  http.MethodPost,
		path:    "/messages/" + url.PathEscape(strings.ReplaceAll(entity, "/", "~")),
		upload:  &upload{m.ContentType, m.Body},
		repeats: always,
		effect:  "the message may have been sent",
		takes:   sendTime,
		within:  repeatWithin,
	}
	if r.header, err = m.header(); err != nil {
		return s, err
	}
	if _, err := c.call(ctx, r, &s); err != nil {
		return SentMessage{}, err
	}
	return s, c.expect(r, nil, "for message", s.MessageID, m.ID)
}

// header returns the headers that carry all but the body.
func (m Message) header() (map[string]string, error) {
	if m.ContentType != "" && len(m.Body) == 0 {
		return nil, invalidf("the message has a content type and no body; omit the content type")
	}
	if strings.ContainsFunc(m.ContentType, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, invalidf("the content type %.100q has characters that no content type has", m.ContentType)
	}
	if m.TimeToLive < 0 || m.TimeToLive%time.Millisecond != 0 {
		return nil, invalidf("the time to live is %v; use whole milliseconds, or 0 for none", m.TimeToLive)
	}
	texts := []string{m.ID, m.SessionID, m.PartitionKey, m.Subject, m.CorrelationID, m.To, m.ReplyTo}
	properties := make(map[string]any, len(m.Properties))
	for name, value := range m.Properties {
		texts = append(texts, name)
		switch v := value.(type) {
		case string:
			texts = append(texts, v)
		case bool, int, int64:
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, invalidf("the property %.100q is %v, which JSON does not have", name, v)
			}
			text := strconv.FormatFloat(v, 'g', -1, 64)
			if !strings.ContainsAny(text, ".e") {
				text += ".0" // without a point it would become an integer
			}
			value = json.Number(text)
		default:
			return nil, invalidf("the property %.100q has the type %T; use string, bool, int, int64 or float64", name, value)
		}
		properties[name] = value
	}
	if err := checkTexts(texts...); err != nil {
		return nil, err
	}
	broker := struct {
		MessageID     string  `json:"MessageId"`
		SessionID     string  `json:"SessionId,omitempty"`
		PartitionKey  string  `json:",omitempty"`
		Label         string  `json:",omitempty"`
		CorrelationID string  `json:"CorrelationId,omitempty"`
		To            string  `json:",omitempty"`
		ReplyTo       string  `json:",omitempty"`
		TimeToLive    float64 `json:",omitempty"` // seconds
		ScheduledAt   string  `json:"ScheduledEnqueueTimeUtc,omitempty"`
	}{m.ID, m.SessionID, m.PartitionKey, m.Subject, m.CorrelationID, m.To, m.ReplyTo, m.TimeToLive.Seconds(), ""}
	if !m.ScheduledAt.IsZero() {
		broker.ScheduledAt = m.ScheduledAt.UTC().Format(time.RFC3339Nano)
	}
	text, err := headerJSON(broker)
	header := map[string]string{"BrokerProperties": text}
	if err == nil && len(properties) > 0 {
		header["Kennel-Properties"], err = headerJSON(properties)
	}
	return header, err
}

// headerJSON returns v as JSON of ASCII characters only, because a header
// carries no others.
func headerJSON(v any) (string, error) {
	text, err := encode(v)
	var b strings.Builder
	for _, r := range string(text) {
		if r <= '~' {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			b.WriteString(`\u` + strconv.FormatUint(0x10000+uint64(unit), 16)[1:])
		}
	}
	return b.String(), err
}

// RelayEntity is a queue or topic to which the app sends, or for which it keeps
// messages in the backlog.
type RelayEntity struct {
	Entity    string        `json:"entity"`
	State     string        `json:"state"`     // RelayHealthy, RelaySuspect or RelayFailedOver: the worst of all instances
	Since     time.Time     `json:"since"`     // of the state; zero: no instance sends to the entity
	Throttled bool          `json:"throttled"` // sends wait, because the namespace is busy
	LastError string        `json:"lastError"` // of the primary namespace; "" for none
	Backlog   *RelayBacklog `json:"backlog"`   // nil: the backlog was not sampled

	received
}

// The values of [RelayEntity.State].
const (
	RelayHealthy    = "healthy"    // messages go to the entity
	RelaySuspect    = "suspect"    // sends to it fail, for less than the failover interval
	RelayFailedOver = "failedOver" // messages go to the backlog
)

// RelayBacklog is the backlog of an entity.
type RelayBacklog struct {
	Messages      int64     `json:"messages"`
	OldestSeconds float64   `json:"oldestSeconds"` // 0 without messages
	More          bool      `json:"more"`          // the backlog has more messages than were counted, of this or another entity
	At            time.Time `json:"at"`            // of the sample
}

// Relay returns the entities to which the app sends, and those for which
// messages are in the backlog, by name.
func (c *Client) Relay(ctx context.Context) ([]RelayEntity, error) {
	entities, _, err := front[RelayEntity](ctx, c, request{method: http.MethodGet, path: "/relay", repeats: always, limit: maxPage})
	return entities, err
}

// SyphonRun is the result of a run of the syphon.
type SyphonRun struct {
	Moved        int64 `json:"moved"`        // to their entities
	DeadLettered int64 `json:"deadLettered"` // in the backlog: they cannot be sent
	Expired      int64 `json:"expired"`      // their time to live ended in the backlog
	Held         int64 `json:"held"`         // cannot be moved now
	Unreadable   int64 `json:"unreadable"`   // cannot be decoded, and stay in the backlog
	More         bool  `json:"more"`         // messages may be left

	received
}

// Syphon moves messages from the backlog to their entities, with one call that
// takes up to half a minute. Any number of calls may run at once.
func (c *Client) Syphon(ctx context.Context) (s SyphonRun, err error) {
	r := request{
		method:  http.MethodPost,
		path:    "/relay/syphon",
		repeats: always,
		effect:  "messages may have been moved",
		takes:   sendTime,
		within:  repeatWithin,
	}
	_, err = c.call(ctx, r, &s)
	return s, err
}
