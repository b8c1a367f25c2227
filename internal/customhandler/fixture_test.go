package customhandler

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// newApp returns an App that logs nothing unless opt has a Log.
func newApp(t testing.TB, opt Options) *App {
	t.Helper()
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	app, err := New(&opt)
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// serve starts a server for an app and returns its client.
func serve(t testing.TB, h http.Handler) (*httptest.Server, *Client) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.Start()
	t.Cleanup(server.Close)
	return server, NewClient(server.URL)
}

// logBook is a log that a test can read. It is safe for concurrent use.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBook) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

const queueEnvelope = `{"Data":{"msg":"\"hello\""},"Metadata":{}}`

// httpEnvelope is the envelope of a GET call.
func httpEnvelope(path string) string {
	return `{"Data":{"req":{"Method":"GET","Url":"http://h` + path + `"}}}`
}

// post sends an envelope to a handler.
func post(h http.Handler, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r, err := NewEnvelopeRequest(context.Background(), "http://127.0.0.1:1", strings.TrimPrefix(path, "/"), []byte(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("X-Azure-Functions-InvocationId", "inv-1")
	h.ServeHTTP(w, r)
	return w
}

// call sends one request and reads the whole answer.
func call(t *testing.T, server *httptest.Server, method, path string, body io.Reader) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequest(method, server.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// wantObject fails the test unless the answer is a JSON object that is declared
// as JSON: the host never hangs on one.
func wantObject(t *testing.T, w *httptest.ResponseRecorder) map[string]json.RawMessage {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q, want application/json", got)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(w.Body.Bytes(), &object); err != nil || object == nil {
		t.Fatalf("answer = %q, want a JSON object (%v)", w.Body, err)
	}
	return object
}
