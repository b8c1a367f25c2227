package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/client"
)

// answer is what an app that is played by a test returns.
type answer struct {
	status int
	kind   string // the content type
	body   string
	header map[string]string
}

func (a answer) write(w http.ResponseWriter) {
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", a.kind)
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

func ok(body string) answer { return answer{200, "application/json", body, nil} }

func appError(status int, code string, header map[string]string) answer {
	return answer{status, "application/json", `{"error":{"code":"` + code + `","message":"broken"}}`, header}
}

func after(seconds string) map[string]string { return map[string]string{"Retry-After": seconds} }

// app plays an app without a network, so that time is virtual.
type app struct {
	answers []any // answers and errors in order; the last one is repeated
	takes   time.Duration

	mu      sync.Mutex
	asked   []string // method, address, condition and body of each request
	headers []http.Header
	said    []string // the notices, and the rows that lists left out
}

func (a *app) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	asked := r.Method + " " + strings.TrimPrefix(r.URL.RequestURI(), "/api")
	if accept := r.Header.Get("Accept"); accept != "application/json" {
		asked += " as " + accept
	}
	if condition := r.Header.Get("If-Match"); condition != "" {
		asked += " if " + condition
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		asked += " key " + key
	}
	if len(text) > 0 {
		asked += " " + string(text)
	}
	a.mu.Lock()
	a.asked, a.headers = append(a.asked, asked), append(a.headers, r.Header)
	next := a.answers[0]
	if len(a.answers) > 1 {
		a.answers = a.answers[1:]
	}
	a.mu.Unlock()

	takes := a.takes
	if reply, ok := next.(answer); ok && reply.status == http.StatusAccepted && strings.Contains(asked, "/wait?") {
		takes, _ = time.ParseDuration(r.URL.Query().Get("timeout"))
	}
	select {
	case <-time.After(takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if err, ok := next.(error); ok {
		return nil, err
	}
	w := httptest.NewRecorder()
	next.(answer).write(w)
	return w.Result(), nil
}

// playing returns an app with these answers, and a client that calls it.
func playing(t *testing.T, answers ...any) (*app, *client.Client) {
	t.Helper()
	a := &app{answers: answers}
	c, err := client.New("http://app.example", &client.Options{
		HTTP:    &http.Client{Transport: a},
		Notify:  func(n client.Notice) { a.said = append(a.said, n.String()) },
		LeftOut: func(list string, rows int) { a.said = append(a.said, fmt.Sprint(list, " lacks ", rows)) },
		Partial: func(list string) { a.said = append(a.said, list+" is partial") },
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, c
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// expectError expects an error that contains text, or no error if text is "".
func expectError(t *testing.T, what string, err error, text string) {
	t.Helper()
	if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got error %v, want %q", what, err, text)
	}
}

// gateIs is the answer with the state of gate hounds.
func gateIs(status int, released bool, generation int64, more ...string) answer {
	body := fmt.Sprintf(`{"gate":"hounds","released":%t,"generation":%d,"releases":%[2]d%s}`, released, generation, strings.Join(more, ""))
	return answer{status, "application/json", body, nil}
}

var errReset = errors.New("reset by peer")
