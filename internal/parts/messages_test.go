package parts

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/relay"
)

// sent sends a message with a call and returns the answer.
func (w *relayWorld) sentAs(t *testing.T, entity, body string, header ...string) (answer struct {
	MessageID, SentTo string
	Error             struct{ Code, Message string }
	status            int
	retryAfter        int // 0: none
}) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/api/messages/"+entity, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	got := apptest.ServeDescribed(t, w.host, r, body)
	if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v", got.Body, err)
	}
	answer.status = got.Code
	answer.retryAfter, _ = strconv.Atoi(got.Header().Get("Retry-After"))
	return answer
}

// TestSendMessage: the message is stored as it was sent, in one queue whatever
// the case of its name.
func TestSendMessage(t *testing.T) {
	w := newRelayWorld(t, true)
	body := "\x00\xff<>&"
	got := w.sentAs(t, "Sales~ORDERS", body, "Content-Type", "application/octet-stream", api.BrokerProperties, `{"MessageId":"m1","Label":"l"}`, api.MessageProperties, `{"n":1}`)
	if got.status != 201 || got.MessageID != "m1" || got.SentTo != "primary" {
		t.Errorf("%+v, want it stored in the primary namespace", got)
	}
	stored := w.primary.messages("sales/orders")
	if len(stored) != 1 {
		t.Fatalf("%d messages are stored", len(stored))
	}
	m := stored[0].Message
	if diff := cmp.Diff([][]byte{[]byte(body)}, m.Body.Data); diff != "" || *m.Properties.ContentType != "application/octet-stream" || *m.Properties.Subject != "l" || m.ApplicationProperties["n"] != int64(1) {
		t.Errorf("stored %+v %+v:\n%s", m, m.Properties, diff)
	}
	got = w.sentAs(t, "orders", "")
	if m = w.primary.messages("orders")[0].Message; got.status != 201 || len(got.MessageID) < 20 || m.Properties.MessageID != got.MessageID || len(m.Body.Data) != 1 || len(m.Body.Data[0]) != 0 {
		t.Errorf("a message without a body: %+v, %+v", got, m)
	}
	if w.secondary.connects > 0 {
		t.Errorf("%d connections to the secondary namespace", w.secondary.connects)
	}
}

// TestInvalidMessages: what is invalid is rejected in both modes, without a
// request to Service Bus.
func TestInvalidMessages(t *testing.T) {
	large := strings.Repeat("x", 261_120)
	for _, failedOver := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newRelayWorld(t, true)
			if failedOver {
				w.failOver(t, "orders")
			}
			calls := 0
			count := func(_ context.Context, op, _ string) error {
				if op == "send" {
					calls++
				}
				return with(relay.Unavailable)(nil, "", "")
			}
			w.primary.fails(count)
			w.secondary.fails(count)
			for _, tt := range []struct {
				entity, body string
				header       []string
				status       int
				code         string
			}{
				{"a%20b", "x", nil, 400, "bad_entity"},
				{"-orders", "x", nil, 400, "bad_entity"},
				{"orders~", "x", nil, 400, "bad_entity"},
				{"%24management", "x", nil, 400, "bad_entity"},
				{strings.Repeat("x", 261), "x", nil, 400, "bad_entity"},
				{"Signals", "x", nil, 400, "bad_entity"},
				{"orders", "x", []string{api.BrokerProperties, `{"TimeToLive":0}`}, 400, "bad_broker_properties"},
				{"orders", "x", []string{api.BrokerProperties, "{}", api.BrokerProperties, "{}"}, 400, "bad_broker_properties"},
				{"orders", "x", []string{api.MessageProperties, `{"a":null}`}, 400, "bad_properties"},
				{"orders", "x", []string{api.MessageProperties, `{"x-ms-path":"other"}`}, 400, "bad_message"},
				{"orders", "x", []string{api.MessageProperties, `{"DeadLetterReason":1}`}, 400, "bad_message"},
				{"orders", "", []string{"Content-Type", "text/plain"}, 411, "length_required"},
				{"orders", large, nil, 413, "message_too_large"},
				{"orders", strings.Repeat("x", edge.MaxBody+1), nil, 413, "body_too_large"},
			} {
				got := w.sentAs(t, tt.entity, tt.body, tt.header...)
				if got.status != tt.status || got.Error.Code != tt.code || strings.Contains(got.Error.Message, "invalid: invalid") {
					t.Errorf("failed over: %t: %s %.50q %q: %+v, want %d %s", failedOver, tt.entity, tt.body, tt.header, got, tt.status, tt.code)
				}
			}
			if calls > 0 {
				t.Errorf("%d sends", calls)
			}
			w.primary.fails(nil)
			w.secondary.fails(nil)
			if got := w.sentAs(t, "orders", large[:260_900]); got.status != 201 || (got.SentTo == "backlog") != failedOver {
				t.Errorf("failed over: %t: almost the largest one: %+v", failedOver, got)
			}
		})
	}
}

// failOver lets an entity fail over.
func (w *relayWorld) failOver(t *testing.T, entity string) {
	t.Helper()
	w.primary.fails(with(relay.Unavailable))
	for range 100 {
		if got := w.sentAs(t, entity, "x"); got.SentTo == "backlog" {
			return
		}
	}
	t.Fatal("no failover")
}

// TestSendFailures: what a caller learns of each failure, and how long it takes.
func TestSendFailures(t *testing.T) {
	both := func(class relay.Class) func(w *relayWorld) {
		return func(w *relayWorld) { w.primary.fails(with(class)); w.secondary.fails(with(class)) }
	}
	for _, tt := range []struct {
		name   string
		fault  func(w *relayWorld)
		alone  bool // without a secondary
		status int
		code   string
		retry  int // seconds; the sender adds up to a tenth
		within time.Duration
		denied string // the subject of the problem bus_denied
	}{
		{"no namespace answers", both(relay.Unavailable), false, 503, "bus_unavailable", 5, api.SendTimeout, ""},
		{"no namespace answers", both(relay.Unavailable), true, 503, "bus_unavailable", 5, api.SendTimeout, ""},
		{"silent", func(w *relayWorld) { w.primary.fails(silent); w.secondary.fails(silent) }, false, 503, "bus_unavailable", 5, api.SendTimeout, ""},
		{"busy", both(relay.Throttled), true, 503, "bus_busy", 10, api.SendTimeout, ""},
		{"very busy", func(w *relayWorld) {
			w.primary.fails(func(context.Context, string, string) error {
				return &relay.Error{Class: relay.Throttled, Unsent: true, After: 45 * time.Second, Err: errTest}
			})
		}, true, 503, "bus_busy", 45, api.SendTimeout, ""},
		{"full", both(relay.Full), true, 503, "bus_full", 60, 0, ""},
		{"denied", both(relay.Denied), true, 503, "bus_denied", 60, 0, "orders"},
		{"no entity", both(relay.NotFound), true, 404, "entity_not_found", 0, 0, ""},
		{"invalid for the namespace", both(relay.Invalid), true, 400, "bad_message", 0, 0, ""},
		{"too large for the entity", both(relay.TooLarge), true, 413, "message_too_large", 0, 0, ""},
		{"the secondary denies", func(w *relayWorld) { w.primary.fails(with(relay.Unavailable)); w.secondary.fails(with(relay.Denied)) }, false, 503, "bus_denied", 60, api.SendTimeout, "orders"},
		{"the secondary has no queues", func(w *relayWorld) {
			w.primary.fails(with(relay.Unavailable))
			w.secondary.fails(with(relay.NotFound))
		}, false, 503, "bus_unavailable", 5, api.SendTimeout, ""},
		{"the secondary is full", func(w *relayWorld) { w.primary.fails(with(relay.Unavailable)); w.secondary.fails(with(relay.Full)) }, false, 503, "bus_unavailable", 5, api.SendTimeout, ""},
		{"the secondary takes less", func(w *relayWorld) {
			w.primary.fails(with(relay.Unavailable))
			w.secondary.fails(with(relay.TooLarge))
		}, false, 413, "message_too_large", 0, api.SendTimeout, ""},
		{"no answer", func(w *relayWorld) {
			w.primary.fails(func(ctx context.Context, _, _ string) error {
				<-ctx.Done()
				return &relay.Error{Class: relay.Unavailable, Err: ctx.Err()}
			})
		}, true, 504, "send_unclear", 0, api.SendTimeout, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newRelayWorld(t, !tt.alone)
			tt.fault(w)
			began := time.Now()
			got := w.sentAs(t, "orders", "x")
			if took := time.Since(began); got.status != tt.status || got.Error.Code != tt.code || took > tt.within {
				t.Errorf("%s: %+v after %v, want %d %s within %v", tt.name, got, took, tt.status, tt.code, tt.within)
			}
			if got.retryAfter < tt.retry || got.retryAfter > tt.retry+tt.retry/10+1 {
				t.Errorf("%s: Retry-After %d, want %d", tt.name, got.retryAfter, tt.retry)
			}
			denied := ""
			for _, p := range w.Problems() {
				if p.Code == instances.BusDenied && strings.Contains(p.What, errTest.Error()) && p.Count >= 1 {
					denied += p.Subject
				}
			}
			if !strings.HasPrefix(denied, tt.denied) || (denied == "") != (tt.denied == "") {
				t.Errorf("%s: denied %q, want %q", tt.name, denied, tt.denied)
			}
		})
	}
}

// TestWithoutServiceBus: the calls name the setting that is missing.
func TestWithoutServiceBus(t *testing.T) {
	off := &relayWorld{relayPart: &relayPart{}}
	host := newRelayWorld(t, false)
	off.host = newRelayHost(t, off.Routes())
	for _, tt := range []struct {
		w                           *relayWorld
		method, path, code, setting string
	}{
		{off, "POST", "/api/messages/orders", "bus_off", "setting ServiceBus."},
		{off, "GET", "/api/relay", "bus_off", "setting ServiceBus."},
		{off, "POST", "/api/relay/syphon", "bus_off", "setting ServiceBus."},
		{host, "POST", "/api/relay/syphon", "relay_off", "setting ServiceBusSecondary."},
	} {
		got := apptest.ServeDescribed(t, tt.w.host, httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, nil), "")
		if got.Code != 501 || !strings.Contains(got.Body.String(), tt.code) || !strings.Contains(got.Body.String(), tt.setting) {
			t.Errorf("%s: %d %s, want 501 %s", tt.path, got.Code, got.Body, tt.code)
		}
	}
	if problems := off.Problems(); len(problems) > 0 {
		t.Errorf("problems %v", problems)
	}
	var r instances.Report
	off.Facts(&r)
	if err := off.Run(t.Context()); err != nil || instances.BacklogSection.Of(r) != nil || off.Close(t.Context()) != nil {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestDenialEnds: a refusal is a problem until a message is sent, or for ten
// minutes.
func TestDenialEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRelayWorld(t, false)
		w.primary.fails(with(relay.Denied))
		w.sentAs(t, "a", "x")
		w.sentAs(t, "a", "x")
		w.sentAs(t, "b", "x")
		if p := w.Problems(); len(p) != 2 || p[0].Count != 2 || p[0].Subject != "a" {
			t.Errorf("%+v, want two", p)
		}
		w.primary.fails(nil)
		w.sentAs(t, "a", "x")
		if p := w.Problems(); len(p) != 1 || p[0].Subject != "b" {
			t.Errorf("%+v, want b alone", p)
		}
		time.Sleep(denialLasts + time.Second)
		if p := w.Problems(); len(p) > 0 {
			t.Errorf("%+v, want none after %v", p, denialLasts)
		}
	})
}
