package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answer is the response of a test server.
type answer struct {
	status      int
	contentType string
	body        string
	header      map[string]string
}

func (a answer) write(w http.ResponseWriter) {
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", a.contentType)
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

func TestNextAnswers(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		answer answer

		code   int
		stdout string
		stderr string // a part of it
	}{
		{
			"JSON on one line", []string{"--json"}, answer{200, "application/json", "{\"sequence\": \"orders\",\n \"first\": 9007199254740991}", nil},
			exitDone, "{\"sequence\":\"orders\",\"first\":9007199254740991}\n", "",
		},
		{"fewer numbers than requested", []string{"--count", "3"}, answer{200, "text/plain", "1\n2\n", nil}, exitFailed, "1\n2\n", "returned 2 numbers instead of 3"},
		{
			"broken connection", []string{"--count", "3"}, answer{200, "text/plain", "7\n8\n", map[string]string{"Content-Length": "100"}},
			exitFailed, "7\n8\n", "after 2 of 3",
		},
		{"no number", nil, answer{200, "text/plain", "hello\n", nil}, exitFailed, "", `returned "hello" instead of a number`},
		{"another site", nil, answer{200, "text/html", "<h1>hello</h1>", nil}, exitFailed, "", "check that --url is the app's address"},
		{
			"error of the app", nil, answer{400, "application/json", `{"error":{"code":"count","message":"count is above \u001b[1m10000"}}`, nil},
			exitFailed, "", "the app returned 400 count: count is above \ufffd[1m10000",
		},
		{"no key", nil, answer{401, "", "", nil}, exitFailed, "", "requires a function key (401); set KENNEL_KEY"},
		{"wrong key", []string{"--key", "secret"}, answer{401, "", "", nil}, exitFailed, "", "rejected this function key"},
		{
			"redirect", nil, answer{301, "", "", map[string]string{"Location": "https://example.com/"}},
			exitFailed, "", "to https://example.com/; use that address",
		},
		{"busy without Retry-After", nil, answer{503, "", "", nil}, exitFailed, "", "returned 503 Service Unavailable"},
		{
			"Retry-After is too long", nil, answer{503, "", "", map[string]string{"Retry-After": "3600"}},
			exitFailed, "", "its Retry-After is 1h0m0s, and kennel waits at most 30s",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tt.answer.write(w) }))
			defer server.Close()
			code, stdout, stderr := call(t, nil, append([]string{"next", "--url", server.URL}, tt.args...)...)
			if code != tt.code || stdout != tt.stdout || !strings.Contains(stderr, tt.stderr) || strings.Contains(stderr, "secret") {
				t.Errorf("code %d, stdout %q, stderr %q\nwant code %d, stdout %q, stderr with %q, without the key",
					code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
			}
		})
	}
}

func TestNextRequest(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = []string{r.Method, r.RequestURI, r.Header.Get("Accept"), r.Header.Get("X-Functions-Key")}
		answer{status: 200, contentType: r.Header.Get("Accept"), body: "1"}.write(w)
	}))
	defer server.Close()
	env := map[string]string{"KENNEL_KEY": "from env"}
	for _, tt := range []struct {
		name string
		env  map[string]string
		args []string
		want []string
	}{
		{"defaults", nil, []string{server.URL + "/"}, []string{"POST", "/api/sequences/orders/next?count=1", "text/plain", ""}},
		{
			"a name that needs escaping, JSON, a key from the environment", env, []string{server.URL, "--sequence", "a/b c?", "--json"},
			[]string{"POST", "/api/sequences/a%2Fb%20c%3F/next?count=1", "application/json", "from env"},
		},
		{
			"the flag overrides the environment", env, []string{server.URL + "/behind/proxy", "--key", "from flag"},
			[]string{"POST", "/behind/proxy/api/sequences/orders/next?count=1", "text/plain", "from flag"},
		},
	} {
		code, _, stderr := call(t, tt.env, append([]string{"next", "--url"}, tt.args...)...)
		if diff := cmp.Diff(tt.want, got); code != exitDone || diff != "" {
			t.Errorf("%s: code %d, stderr %q, request (-want +got):\n%s", tt.name, code, stderr, diff)
		}
	}
}

// tripper responds without a network, so that time is virtual.
type tripper func(*http.Request) (answer, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := f(r)
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	a.write(w)
	return w.Result(), nil
}

// remoteOf returns an app behind a tripper. said collects the messages.
func remoteOf(f tripper, said *[]string) remote {
	return remote{
		client: &http.Client{Transport: f},
		base:   &url.URL{Scheme: "http", Host: "app.example"},
		say:    func(format string, args ...any) { *said = append(*said, fmt.Sprintf(format, args...)) },
	}
}

// answering returns the answers and errors in order, and repeats the last one.
// A 202 takes as long as the requested timeout. asked collects the requests,
// without the path of the gate hounds.
func answering(asked *[]string, answers ...any) tripper {
	return func(r *http.Request) (a answer, err error) {
		*asked = append(*asked, r.Method+" "+strings.TrimPrefix(r.URL.RequestURI(), "/api/gates/hounds"))
		next := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		if err, ok := next.(error); ok {
			return a, err
		}
		if a = next.(answer); a.status == http.StatusAccepted {
			d, _ := time.ParseDuration(r.URL.Query().Get("timeout"))
			time.Sleep(d)
		}
		return a, nil
	}
}

// TestDrawRetries checks that a request is retried only after 503 with
// Retry-After, up to five times and while the context lasts.
func TestDrawRetries(t *testing.T) {
	after := func(status int, retry string) answer {
		return answer{status, "", "", map[string]string{"Retry-After": retry}}
	}
	type test struct {
		name    string
		answers []any
		calls   int
		takes   time.Duration
		err     string
	}
	tests := []test{
		{"busy twice", []any{after(503, "2"), after(503, "Sat, 01 Jan 2000 00:00:12 GMT"), answer{200, "text/plain", "5\n", nil}}, 3, 12 * time.Second, ""},
		{"always busy", []any{after(503, "1")}, 6, 5 * time.Second, "gave up after 6 attempts"},
		{"busy for longer than the caller waits", []any{after(503, "30")}, 1, 20 * time.Second, context.DeadlineExceeded.Error()},
		{"no response", []any{errors.New("reset by peer")}, 1, 0, "numbers may have been drawn"},
	}
	for _, status := range []int{400, 401, 404, 408, 409, 429, 500, 502, 504} {
		tests = append(tests, test{strconv.Itoa(status), []any{after(status, "0")}, 1, 0, strconv.Itoa(status)})
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var asked, said []string
			var out bytes.Buffer
			begin := time.Now()
			err := newDraw(remoteOf(answering(&asked, tt.answers...), &said), "orders", 1).printLines(ctx, &out)
			expectError(t, tt.name, err, tt.err)
			if takes := time.Since(begin); len(asked) != tt.calls || takes != tt.takes || (err == nil) != (out.String() == "5\n") {
				t.Errorf("%s: %d calls in %v, output %q, want %d in %v", tt.name, len(asked), takes, out.String(), tt.calls, tt.takes)
			}
			if tt.err == "" {
				same(t, "said", []string{"the app is busy; retrying in 2s (1 of 5)", "the app is busy; retrying in 10s (2 of 5)"}, said)
			}
		})
	}
}
