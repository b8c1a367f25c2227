package client_test

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

func TestSendMessage(t *testing.T) {
	const stored = `{"messageId":"m1","sentTo":"backlog"}`
	a, c := playing(t, answer{201, "application/json", stored, nil}, answer{201, "application/json", stored, nil})
	s, err := c.SendMessage(t.Context(), "sales/orders", client.Message{
		Body: []byte("\x00<b>"), ContentType: "text/plain", ID: "m1", SessionID: "s", PartitionKey: "s", Subject: "naïve 🐕\x7f", CorrelationID: "c",
		To: "t", ReplyTo: "r", TimeToLive: 1500 * time.Millisecond, ScheduledAt: time.Date(2026, 11, 23, 9, 0, 0, 5e8, time.FixedZone("", 3600)),
		Properties: map[string]any{"a": "é", "b": true, "c": 3, "d": int64(math.MaxInt64), "e": 3.0, "f": 1e300, "g": -0.5},
	})
	if err != nil || s.MessageID != "m1" || s.SentTo != client.SentToBacklog || string(s.JSON()) != stored {
		t.Errorf("got %+v, %v", s, err)
	}
	same(t, "asked", []string{"POST /messages/sales~orders \x00<b>"}, a.asked)
	same(t, "type", "text/plain", a.headers[0].Get("Content-Type"))
	same(t, "BrokerProperties", `{"MessageId":"m1","SessionId":"s","PartitionKey":"s","Label":"na\u00efve \ud83d\udc15\u007f","CorrelationId":"c","To":"t","ReplyTo":"r",`+
		`"TimeToLive":1.5,"ScheduledEnqueueTimeUtc":"2026-11-23T08:00:00.5Z"}`, a.headers[0].Get("BrokerProperties"))
	same(t, "Kennel-Properties", `{"a":"\u00e9","b":true,"c":3,"d":9223372036854775807,"e":3.0,"f":1e+300,"g":-0.5}`, a.headers[0].Get("Kennel-Properties"))

	if _, err := c.SendMessage(t.Context(), "orders", client.Message{ID: "m2"}); !errors.Is(err, client.ErrUnclear) {
		t.Errorf("the answer is for another message: %v, want ErrUnclear", err)
	}
	same(t, "without properties", []string(nil), a.headers[1]["Kennel-Properties"])

	for what, m := range map[string]client.Message{
		"no UTF-8":                {Subject: "\xff"},
		"no UTF-8 in a property":  {Properties: map[string]any{"a": "\xff"}},
		"no UTF-8 in a name":      {Properties: map[string]any{"\xff": "a"}},
		"a property that is null": {Properties: map[string]any{"a": nil}},
		"a property's type":       {Properties: map[string]any{"a": uint64(1)}},
		"not a number":            {Properties: map[string]any{"a": math.NaN()}},
		"infinite":                {Properties: map[string]any{"a": math.Inf(-1)}},
		"time to live":            {TimeToLive: -time.Second},
		"microseconds":            {TimeToLive: time.Second + time.Microsecond},
		"content type":            {Body: []byte("x"), ContentType: "text/plain\r\nx-functions-key: k"},
		"content type of nothing": {ContentType: "text/plain"},
	} {
		if _, err := c.SendMessage(t.Context(), "orders", m); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	for _, entity := range []string{"", ".", "a~b"} {
		if _, err := c.SendMessage(t.Context(), entity, client.Message{}); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("entity %q: %v, want ErrInvalid", entity, err)
		}
	}
	same(t, "asked", 2, len(a.asked))
}

// TestSendMessageAgain checks that a message keeps its ID when it is sent again,
// and what a caller learns when the app gives up.
func TestSendMessageAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, c := playing(t, appError(503, "bus_busy", after("10")), &net.OpError{Op: "read", Err: errReset}, appError(504, "send_unclear", nil))
		began := time.Now()
		_, err := c.SendMessage(t.Context(), "orders", client.Message{})
		if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != "send_unclear" || !errors.Is(err, client.ErrUnclear) {
			t.Errorf("got %v, want send_unclear and ErrUnclear", err)
		}
		same(t, "asked", 3, len(a.asked))
		first := a.headers[0].Get("BrokerProperties")
		if !strings.HasPrefix(first, `{"MessageId":"`) || len(first) < 30 {
			t.Errorf("%s: has no ID of its own", first)
		}
		same(t, "sent again", []string{first, first}, []string{a.headers[1].Get("BrokerProperties"), a.headers[2].Get("BrokerProperties")})
		if waited := time.Since(began); waited < 10*time.Second {
			t.Errorf("waited %v, want the answer's 10s", waited)
		}
	})
}

// TestSendMessageOutage checks that a caller waits for about a minute if the app
// tries for half a minute, but that an app that stops is tried as often as ever.
func TestSendMessageOutage(t *testing.T) {
	for _, tt := range []struct {
		name  string
		again answer
		takes time.Duration
		asked int
	}{
		{"both namespaces do not respond", appError(503, "bus_unavailable", after("5")), 30 * time.Second, 2},
		{"busy", appError(503, "bus_busy", after("11")), 20 * time.Second, 2},
		{"slow", appError(503, "bus_unavailable", after("5")), 90 * time.Second, 2},
		{"stopping", appError(503, "stopping", after("1")), 0, 6},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, c := playing(t, tt.again)
			a.takes = tt.takes
			_, err := c.SendMessage(t.Context(), "orders", client.Message{})
			expectError(t, tt.name, err, fmt.Sprintf("gave up after %d attempts", tt.asked))
			same(t, tt.name, tt.asked, len(a.asked))
		})
	}
}

func TestRelay(t *testing.T) {
	const held = `{"entity":"sales/orders","state":"failedOver","since":"2026-11-23T09:00:00Z","throttled":false,"lastError":"gone","backlog":{"messages":5,"oldestSeconds":1.5,"more":true,"at":"2026-11-23T09:01:00Z"}}`
	a, c := playing(t, ok(`{"items":[`+held+`,{"entity":"x","state":"healthy","since":null,"backlog":null}],"partial":true}`), ok(`{"moved":3,"deadLettered":1,"expired":1,"held":2,"unreadable":1,"more":true}`))
	entities, err := c.Relay(t.Context())
	if err != nil || len(entities) != 2 || entities[0].State != client.RelayFailedOver || entities[0].Backlog.Messages != 5 || !entities[0].Backlog.More ||
		string(entities[0].JSON()) != held || entities[1].Backlog != nil || !entities[1].Since.IsZero() {
		t.Errorf("got %+v, %v", entities, err)
	}
	run, err := c.Syphon(t.Context())
	if err != nil || run.Moved != 3 || run.DeadLettered != 1 || run.Expired != 1 || run.Held != 2 || run.Unreadable != 1 || !run.More {
		t.Errorf("got %+v, %v", run, err)
	}
	same(t, "asked", []string{"GET /relay", "POST /relay/syphon"}, a.asked)
	same(t, "said", []string{"/relay is partial"}, a.said)
}

// TestNamesThatTheHostChanges: no call sends a name that would arrive as
// another one.
func TestNamesThatTheHostChanges(t *testing.T) {
	a, c := playing(t)
	for _, name := range []string{"%41", "a%2fb", "50%25", "news#old", "news?x", `news\`, "news ", "news\n"} {
		expectError(t, name, c.DeleteBlog(t.Context(), name, "b", ""), "would change it into another name")
		_, err := c.Next(t.Context(), name, 1)
		expectError(t, name, err, "would change it into another name")
		_, err = c.Batch(t.Context(), name)
		expectError(t, name, err, "would change it into another name")
	}
	same(t, "requests", 0, len(a.asked))
}
