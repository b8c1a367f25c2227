package api

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kennel/internal/customhandler"
	"kennel/relay"
)

// headers returns the headers of a message; "" sends none.
func headers(broker, properties string) http.Header {
	h := make(http.Header)
	for name, value := range map[string]string{BrokerProperties: broker, MessageProperties: properties} {
		if value != "" {
			h.Set(name, value)
		}
	}
	return h
}

func TestMessageHeaders(t *testing.T) {
	text := func(s string) *string { return &s }
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	plain := func(change func(*relay.Message)) *relay.Message {
		m := &relay.Message{Properties: &relay.Properties{}, Header: &relay.Header{Priority: 4}, MessageAnnotations: make(map[any]any)}
		change(m)
		return m
	}
	for _, tt := range []struct {
		name, broker, properties string
		want                     *relay.Message
	}{
		{"none", "", "", plain(func(*relay.Message) {})},
		{"empty", "{}", "{}", plain(func(m *relay.Message) { m.ApplicationProperties = map[string]any{} })},
		{"all", `{"MessageId":"m","SessionId":"s","PartitionKey":"s","Label":"n\u00e9 \ud83d\udc15","CorrelationId":"c","To":"t","ReplyTo":"","TimeToLive":1.5,"ScheduledEnqueueTimeUtc":"Fri, 02 Jan 2026 03:04:05 GMT"}`,
			`{"a":"b","":"c"}`, nil},
		{"all", `{"MessageId":"m","SessionId":"s","PartitionKey":"s","Label":"n\u00e9 \ud83d\udc15","CorrelationId":"c","To":"t","ReplyTo":"","TimeToLive":1.5,"ScheduledEnqueueTimeUtc":"Fri, 02 Jan 2026 03:04:05 GMT"}`,
			`{"a":"b","t":true,"f":false,"i":-3,"max":9223372036854775807,"over":9223372036854775808,"point":3.0,"exponent":1e2,"a b":""}`,
			plain(func(m *relay.Message) {
				p := m.Properties
				p.MessageID, p.CorrelationID = "m", "c"
				p.GroupID, p.Subject, p.To, p.ReplyTo = text("s"), text("né 🐕"), text("t"), text("")
				m.Header.TTL = 1500 * time.Millisecond
				m.MessageAnnotations = map[any]any{relay.PartitionKey: "s", relay.ScheduledTime: at}
				m.ApplicationProperties = map[string]any{"a": "b", "t": true, "f": false, "i": int64(-3), "max": int64(math.MaxInt64), "over": float64(1 << 63),
					"point": 3.0, "exponent": 100.0, "a b": ""}
			})},
		{"RFC 3339", `{"ScheduledEnqueueTimeUtc":"2026-01-02T04:04:05.0+01:00"}`, "", plain(func(m *relay.Message) { m.MessageAnnotations[relay.ScheduledTime] = at })},
		{"shortest", `{"TimeToLive":0.001}`, "", plain(func(m *relay.Message) { m.Header.TTL = time.Millisecond })},
		{"longest", `{"TimeToLive":4294967.295}`, "", plain(func(m *relay.Message) { m.Header.TTL = maxTTL })},
	} {
		got, err := messageOf(headers(tt.broker, tt.properties))
		if tt.want == nil {
			if err == nil {
				t.Errorf("%s: an empty name is accepted", tt.name)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(relay.Message{})); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
}

func TestInvalidMessageHeaders(t *testing.T) {
	long := strings.Repeat("x", maxMessageID+1)
	for _, tt := range []struct{ broker, text string }{
		{`x`, "near byte"},
		{`{"MessageId":"a"} x`, "near byte"},
		{`[]`, "array"},
		{`null`, "null"},
		{`{"MessageID":"a"}`, `unknown field "MessageID"`},
		{`{"Ttl":1}`, `unknown field "Ttl"`},
		{`{"Label":"a","Label":"b"}`, `duplicate field "Label"`},
		{`{"Label":null}`, `field "Label" is null`},
		{`{"Label":1}`, "wrong type"},
		{`{"MessageId":""}`, "MessageId has 0 bytes"},
		{`{"MessageId":"` + long + `"}`, "MessageId has 129 bytes"},
		{`{"SessionId":"` + long + `"}`, "SessionId has 129 bytes"},
		{`{"PartitionKey":""}`, "PartitionKey has 0 bytes"},
		{`{"SessionId":"a","PartitionKey":"b"}`, "PartitionKey differs from SessionId"},
		{`{"TimeToLive":0}`, "TimeToLive is 0"},
		{`{"TimeToLive":-1}`, "TimeToLive is -1"},
		{`{"TimeToLive":0.0004}`, "TimeToLive is 0.0004"},
		{`{"TimeToLive":4294967.296}`, "TimeToLive is"},
		{`{"TimeToLive":1e300}`, "TimeToLive is"},
		{`{"TimeToLive":5e6}`, "use 0.001 to 4294967.295 seconds"},
		{`{"TimeToLive":1e999}`, `field "TimeToLive" has the number 1e999, which is out of range`},
		{`{"TimeToLive":"10"}`, "wrong type"},
		{`{"ScheduledEnqueueTimeUtc":"tomorrow"}`, "ScheduledEnqueueTimeUtc is"},
		{`{"ScheduledEnqueueTimeUtc":"Fri, 02 Jan 2026 03:04:05 CET"}`, "ScheduledEnqueueTimeUtc is"},
		{`{"ScheduledEnqueueTimeUtc":""}`, "ScheduledEnqueueTimeUtc is"},
		{`{"ScheduledEnqueueTimeUtc":"1969-12-31T23:59:59Z"}`, "of the years 1970 to 9999"},
		{`{"ScheduledEnqueueTimeUtc":"9999-12-31T23:59:59-01:00"}`, "of the years 1970 to 9999"},
		{"{\"Label\":\"\xff\"}", "not valid UTF-8"},
		{`{"Label":"\ud800"}`, "surrogate"},
	} {
		expectHeaderError(t, headers(tt.broker, ""), "bad_broker_properties", tt.text)
	}
	for _, tt := range []struct{ properties, text string }{
		{`[]`, "array"},
		{`null`, "null instead of an object"},
		{`{"a":null}`, `property "a" is null`},
		{`{"a":{}}`, `property "a" is an object`},
		{`{"a":[1]}`, `property "a" is an array`},
		{`{"a":1e999}`, "it has the number 1e999, which is out of range"},
		{`{"":1}`, "the name of a property is empty"},
		{`{"a":1,"a":2}`, `duplicate field "a"`},
		{`{"a":1,"A":2}`, `duplicate field "A"`},
		{`{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, "deep"},
		{`{"a":"\ud800"}`, "surrogate"},
	} {
		expectHeaderError(t, headers("", tt.properties), "bad_properties", tt.text)
	}
	expectHeaderError(t, http.Header{"Brokerproperties": {"{}", "{}"}}, "bad_broker_properties", "more than once")
	expectHeaderError(t, http.Header{"Kennel-Properties": {"{}", "{}"}}, "bad_properties", "more than once")
	expectHeaderError(t, http.Header{"Content-Type": {"text/plaïn"}}, "bad_message", "visible ASCII")
}

func expectHeaderError(t *testing.T, h http.Header, code, text string) {
	t.Helper()
	_, err := messageOf(h)
	if e, ok := err.(*customhandler.Error); !ok || e.Status != 400 || e.Code != code || !strings.Contains(e.Message, text) {
		t.Errorf("%.200v: %v, want %s with %q", h, err, code, text)
	}
}

// FuzzMessageHeaders: what is accepted can be sent, and has the values that
// another reader finds in the JSON.
func FuzzMessageHeaders(f *testing.F) {
	f.Add(`{"MessageId":"m","TimeToLive":1.5}`, `{"a":"b","n":1,"x":1.5,"t":true}`)
	f.Add(`{"ScheduledEnqueueTimeUtc":"2026-01-02T03:04:05Z"}`, `{"a":-0}`)
	f.Add(`{}`, `{"a":12345678901234567890}`)
	f.Fuzz(func(t *testing.T, broker, properties string) {
		m, err := messageOf(headers(broker, properties))
		if err != nil {
			return
		}
		if m.Header.TTL < 0 || m.Header.TTL > maxTTL {
			t.Errorf("time to live %v", m.Header.TTL)
		}
		if id, ok := m.Properties.MessageID.(string); ok && (id == "" || len(id) > maxMessageID || !utf8.ValidString(id)) {
			t.Errorf("message ID %q", id)
		}
		var want map[string]any
		if properties != "" {
			if err := json.Unmarshal([]byte(properties), &want); err != nil {
				t.Fatalf("%q is accepted: %v", properties, err)
			}
		}
		if len(want) != len(m.ApplicationProperties) {
			t.Errorf("%q: %v", properties, m.ApplicationProperties)
		}
		for name, value := range m.ApplicationProperties {
			if n, ok := value.(int64); ok {
				value = float64(n)
			}
			if value != want[name] {
				t.Errorf("%q is %v, want %v", name, value, want[name])
			}
		}
	})
}
