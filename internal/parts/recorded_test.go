package parts

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"kennel/internal/app"
	"kennel/internal/apptest"
	"kennel/internal/config"
	"kennel/internal/customhandler"
)

// recordedStorage is a storage account that records requests. It has nothing,
// unless answer is set.
type recordedStorage struct {
	url    string
	answer http.Handler

	mu       sync.Mutex
	requests []*http.Request
}

// newRecordedStorage starts the account acc.
func newRecordedStorage(t testing.TB, answer http.Handler) *recordedStorage {
	t.Helper()
	s := &recordedStorage{answer: answer}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL + "/acc"
	return s
}

func (s *recordedStorage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, r)
	s.mu.Unlock()
	if s.answer != nil {
		s.answer.ServeHTTP(w, r)
		return
	}
	w.Header().Set("x-ms-error-code", "ResourceNotFound")
	w.WriteHeader(http.StatusNotFound)
}

// taken returns the requests since the last call.
func (s *recordedStorage) taken() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.requests
	s.requests = nil
	return taken
}

// connection returns the account's connection string with a key.
func (s *recordedStorage) connection(key string) string {
	return "DefaultEndpointsProtocol=http;AccountName=acc;AccountKey=" + key + ";BlobEndpoint=" + s.url + ";QueueEndpoint=" + s.url + ";TableEndpoint=" + s.url
}

// appOn wires the whole app with settings besides those of the storage.
func (s *recordedStorage) appOn(t testing.TB, log *slog.Logger, settings map[string]string) *app.Program {
	t.Helper()
	all := map[string]string{"AzureWebJobsStorage": s.connection("c2VjcmV0")}
	for name, value := range settings {
		all[name] = value
	}
	cfg, err := config.Load(all)
	if err != nil {
		t.Fatal(err)
	}
	a, err := newApp(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// rawCall is a call with a path that no client would send.
type rawCall struct {
	function, method, path, body string
	header                       map[string]string
}

// forwarded makes the call as the host forwards it. It returns nil if net/http
// rejects it before any handler.
func (c rawCall) forwarded(host http.Handler) *httptest.ResponseRecorder {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n", c.method, c.path, len(c.body))
	for name, value := range c.header {
		fmt.Fprintf(&text, "%s: %s\r\n", name, value)
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text.String() + "\r\n" + c.body)))
	if err != nil {
		return nil
	}
	w := httptest.NewRecorder()
	host.ServeHTTP(w, r)
	return w
}

// enveloped makes the call in an envelope. Its path and headers may contain what
// HTTP cannot transport.
func (c rawCall) enveloped(t testing.TB, host http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	values := make(map[string][]string)
	for name, value := range c.header {
		values[name] = []string{value}
	}
	call := map[string]any{"Url": "http://h" + c.path, "Method": c.method, "Headers": values}
	if c.body != "" {
		call["Body"] = c.body
	}
	text, err := json.Marshal(map[string]any{"Data": map[string]any{"req": call}})
	if err != nil {
		t.Fatal(err)
	}
	inner := httptest.NewRecorder()
	w := httptest.NewRecorder()
	host.ServeHTTP(w, apptest.Enveloped(t.Context(), c.function, string(text)))
	var answer customhandler.Answer
	var res struct {
		StatusCode int
		Headers    map[string]string
		Body       string
	}
	if w.Code != 200 {
		return w
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	if err := json.Unmarshal(answer.Outputs["res"], &res); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	for name, value := range res.Headers {
		inner.Header().Set(name, value)
	}
	inner.Code = res.StatusCode
	inner.Body.WriteString(res.Body)
	return inner
}
