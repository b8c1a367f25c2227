package customhandler

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestEnveloped: a function whose calls come in envelopes alone serves these, and
// no forwarded call, nor does its envelope lead to another function.
func TestEnveloped(t *testing.T) {
	app := newApp(t, Options{})
	text := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	app.Enveloped("Open", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "/api/open" || r.Host != "example.com" {
			w.WriteHeader(http.StatusTeapot)
		}
	}), "GET /api/open")
	app.HTTP("Locked", "req", text("locked"), "GET /api/locked")
	server, client := serve(t, app)
	for path, want := range map[string]int{"/api/open": http.StatusNotFound, "/api/locked": http.StatusOK} {
		if answer, body, err := call(t, server, "GET", path, nil); err != nil || answer.StatusCode != want {
			t.Errorf("%s, forwarded: %v %s, want %d", path, err, body, want)
		}
	}
	for path, want := range map[string]int{"/api/open": http.StatusOK, "/api/locked": http.StatusNotFound} {
		envelope, err := Trigger{Function: "Open", Binding: "req"}.HTTP(httptest.NewRequest("GET", path, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Invoke(t.Context(), "Open", envelope)
		if err != nil {
			t.Fatal(err)
		}
		if reply, err := answer.HTTP("res"); err != nil || reply.Status != want {
			t.Errorf("%s, in an envelope: %v %+v, want %d", path, err, reply, want)
		}
	}
}
