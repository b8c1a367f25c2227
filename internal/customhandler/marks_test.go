package customhandler

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestOnlyEnvelopesReachFunctions: each of the host's marks is required, so a
// forwarded call, which may have the address of a function, is no envelope.
func TestOnlyEnvelopesReachFunctions(t *testing.T) {
	ran := 0
	app := newApp(t, Options{})
	app.Queue("Work", "msg", func(context.Context, QueueMessage) error { ran++; return nil })
	for _, tt := range []struct {
		name string
		edit func(*http.Request)
		want int
	}{
		{"of the host", func(*http.Request) {}, 200},
		{"with a query", func(r *http.Request) { r.URL.RawQuery = "code=key" }, 404},
		{"with an empty query", func(r *http.Request) { r.URL.ForceQuery = true }, 404},
		{"with a key", func(r *http.Request) { r.Header.Set("x-functions-key", "key") }, 404},
		{"with an empty key", func(r *http.Request) { r.Header.Set("x-functions-key", "") }, 404},
		{"with a Content-Length", func(r *http.Request) { r.ContentLength = int64(len(queueEnvelope)) }, 404},
		{"without a body", func(r *http.Request) { r.ContentLength, r.Body = 0, http.NoBody }, 404},
		{"without a content type", func(r *http.Request) { r.Header.Del("Content-Type") }, 404},
		{"of another content type", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 404},
		{"by another method", func(r *http.Request) { r.Method = "PUT" }, 404},
		{"by GET", func(r *http.Request) { r.Method = "GET" }, 404},
	} {
		r, err := NewEnvelopeRequest(t.Context(), "http://127.0.0.1", "Work", []byte(queueEnvelope))
		if err != nil {
			t.Fatal(err)
		}
		tt.edit(r)
		before, w := ran, httptest.NewRecorder()
		app.ServeHTTP(w, r)
		if w.Code != tt.want || (ran > before) != (tt.want == 200) {
			t.Errorf("%s: %d %s, ran: %t; want %d", tt.name, w.Code, w.Body, ran > before, tt.want)
		}
	}
}

// TestEnvelopeOnTheWire: the server sees the marks that Client.Invoke sends, and
// none of them in a call that Client.Forward sends.
func TestEnvelopeOnTheWire(t *testing.T) {
	var got *http.Request
	server, client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		writeAnswer(w, Answer{})
	}))
	if _, err := client.Invoke(t.Context(), "Work", Trigger{Function: "Work", Binding: "msg"}.Queue(QueueMessage{})); err != nil {
		t.Fatal(err)
	}
	if !isEnvelope(got) || len(got.TransferEncoding) != 1 || got.TransferEncoding[0] != "chunked" || "http://"+got.Host != server.URL || got.Header.Get("Content-Length") != "" {
		t.Errorf("an envelope arrives as %s %s, Host %s, coding %v, %v", got.Method, got.URL, got.Host, got.TransferEncoding, got.Header)
	}
	r := httptest.NewRequest("POST", "/api/x%5C..%5C..%5CWork%3F", strings.NewReader(queueEnvelope))
	r.Header.Set("Content-Type", envelopeType)
	if _, err := client.Forward(t.Context(), httptest.NewRecorder(), r, "inv-1"); err != nil {
		t.Fatal(err)
	}
	if isEnvelope(got) || got.URL.Path != "/Work" || got.Host != "example.com" || got.ContentLength != int64(len(queueEnvelope)) {
		t.Errorf("a forwarded call arrives as %s, Host %s, length %d, %v", got.URL, got.Host, got.ContentLength, got.Header)
	}
}
