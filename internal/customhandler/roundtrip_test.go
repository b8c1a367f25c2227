package customhandler

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// messageTexts are those that some encoding on the way has once damaged.
var messageTexts = []string{
	"", " ", "hello", `"quoted"`, `""`, `"`, `\`, `\"`, "null", "true", "7", "1e3", "[1,2]", `["a"]`, `{"id":7}`, `{"id":7`, ` {"a": 1} `,
	"test", "abcd1234", "aGVsbG8=", "2026-01-02T03:04:05Z", "<script>&amp;", "line\nline\r\n\ttab", "\u0000\u001f\u007f", "ünïcödé 日本語 😀", "\u2028\u2029\ufeff",
	`{"Id":"x","DequeueCount":99,"sys":{},"MessageId":"y","msg":1,"myTrigger":2}`,
}

// TestRoundTrip sends every kind of envelope from Client to App and looks at what the function gets.
func TestRoundTrip(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var got any
	app := New(quiet())
	app.Queue("Queue", "msg", func(_ context.Context, m QueueMessage) error { m.Metadata = nil; got = m; return nil })
	app.ServiceBus("Bus", "msg", func(_ context.Context, m ServiceBusMessage) error { m.Metadata = nil; got = m; return nil })
	app.ServiceBusBatch("Batch", "msgs", func(_ context.Context, ms []ServiceBusMessage) error { got = ms; return nil })
	app.Timer("Timer", "tick", func(_ context.Context, tick Tick) error { tick.Metadata = nil; got = tick; return nil })
	server := httptest.NewServer(app)
	defer server.Close()
	client := NewClient(server.URL, nil)
	check := func(t *testing.T, function string, e Envelope, want any) {
		t.Helper()
		got = nil
		if _, err := client.Invoke(t.Context(), function, e); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(ServiceBusMessage{}, "Metadata")); diff != "" {
			t.Errorf("%s got (-want +got):\n%s", function, diff)
		}
	}

	for _, text := range messageTexts {
		t.Run(fmt.Sprintf("%.20q", text), func(t *testing.T) {
			shadowed := json.Valid([]byte(text)) && isObject([]byte(text))
			m := QueueMessage{Text: text, ID: "id", PopReceipt: "AgAA==", DequeueCount: 3, Inserted: at, Expires: at.Add(time.Hour), NextVisible: at.Add(time.Minute)}
			b := ServiceBusMessage{Text: text, MessageID: "m-1", SequenceNumber: 1 << 60, DeliveryCount: 2, LockToken: "lock", ContentType: "text/plain",
				CorrelationID: "c", Subject: "s", To: "t", ReplyTo: "r", ReplyToSessionID: "rs", SessionID: "se", PartitionKey: "p",
				DeadLetterSource: "d", Enqueued: at, Expires: at.Add(time.Hour), Properties: map[string]any{"k": "v", "n": json.Number("7")}}
			if !shadowed {
				check(t, "Queue", Trigger{Function: "Queue", Binding: "msg"}.Queue(m), m)
				check(t, "Bus", Trigger{Function: "Bus", Binding: "msg"}.ServiceBus(b), b)
			} else if _, err := client.Invoke(t.Context(), "Queue", Trigger{Function: "Queue", Binding: "msg"}.Queue(m)); err != nil || got.(QueueMessage).Text != text {
				t.Errorf("a payload that shadows metadata arrives as %v, %v", got, err)
			}
			check(t, "Queue", Trigger{Function: "Queue", Binding: "msg"}.AdminText("x"+text), QueueMessage{Text: "x" + text})

			e, err := Trigger{Function: "Batch", Binding: "msgs", DataType: "string"}.ServiceBusBatch([]ServiceBusMessage{b, {Text: "second"}})
			if err != nil {
				t.Fatal(err)
			}
			check(t, "Batch", e, []ServiceBusMessage{b, {Text: "second"}})
		})
	}

	for _, tick := range []Tick{{}, {PastDue: true, AdjustForDST: true}, {Schedule: &ScheduleStatus{}},
		{AdjustForDST: true, Schedule: &ScheduleStatus{Last: at.Add(100), Next: at.Add(time.Hour), LastUpdated: at}}} {
		check(t, "Timer", Trigger{Function: "Timer", Binding: "tick"}.Timer(tick), tick)
		check(t, "Timer", Trigger{Function: "Timer", Binding: "tick"}.AdminTimer(tick, ""), tick)
	}
}

// TestBothWaysOfAnHTTPCall: one handler, the same call once forwarded and once in an envelope, and the same answer.
func TestBothWaysOfAnHTTPCall(t *testing.T) {
	app := New(quiet())
	app.HTTP("Echo", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", fmt.Sprint(r.PathValue("id"), r.URL.Query(), r.Host, r.ContentLength, r.Header.Get("X-Custom"), InvocationID(r.Context()) != ""))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	}), "POST /api/echo/{id}")
	handler := httptest.NewServer(app)
	defer handler.Close()
	client := NewClient(handler.URL, nil)

	// A small host: it forwards, or it builds an envelope and makes its answer from Outputs.res.
	enveloped := false
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !enveloped {
			if _, err := client.Forward(context.WithoutCancel(r.Context()), w, r, NewInvocationID()); err != nil {
				t.Error(err)
			}
			return
		}
		e, err := Trigger{Function: "Echo", Binding: "req"}.HTTP(r, map[string]any{"id": r.URL.Path[len("/api/echo/"):]})
		if err != nil {
			t.Error(err)
			return
		}
		a, err := client.Invoke(context.WithoutCancel(r.Context()), "Echo", e)
		if err != nil {
			t.Error(err)
			return
		}
		res, err := a.HTTP("res")
		if err != nil {
			t.Error(err)
			return
		}
		for name, values := range res.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(res.Status)
		_, _ = w.Write(res.Body)
	}))
	defer host.Close()

	for _, text := range messageTexts[1:] {
		var answers []string
		for _, enveloped = range []bool{false, true} {
			r, err := http.NewRequest("POST", host.URL+"/api/echo/a%20b?q=1%202", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Custom", "x")
			resp, err := host.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			answers = append(answers, fmt.Sprintf("%d %q %q %q", resp.StatusCode, resp.Header.Get("X-Seen"), resp.Header.Get("Content-Type"), body))
		}
		if answers[0] != answers[1] {
			t.Errorf("call with body %q:\nforwarded %s\nenveloped %s", text, answers[0], answers[1])
		}
	}
}

func TestParallelInvocations(t *testing.T) {
	const n = 50
	app := New(quiet())
	var here atomic.Int32
	all := make(chan struct{})
	app.Queue("Meet", "msg", func(ctx context.Context, m QueueMessage) error {
		if here.Add(1) == n {
			close(all)
		}
		select {
		case <-all: // only when all are in flight at once
		case <-ctx.Done():
			return ctx.Err()
		}
		return Emit(ctx, "outq", m.Text+" in "+InvocationID(ctx))
	})
	server := httptest.NewServer(app)
	defer server.Close()
	client := NewClient(server.URL, nil)
	type outcome struct{ got, want string }
	outcomes := make(chan outcome)
	for i := range n {
		go func() {
			text := fmt.Sprint("message ", i)
			e := Trigger{Function: "Meet", Binding: "msg"}.Queue(QueueMessage{Text: text})
			a, err := client.Invoke(t.Context(), "Meet", e)
			outcomes <- outcome{fmt.Sprintf("%s %v", a.Outputs["outq"], err), fmt.Sprintf(`["%s in %s"] <nil>`, text, e.ID)}
		}()
	}
	for range n {
		if o := <-outcomes; o.got != o.want {
			t.Errorf("answer = %s, want %s", o.got, o.want)
		}
	}
}
