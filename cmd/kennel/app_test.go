package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

// answer is the response of an app that a test plays.
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

func appError(status int, code string, header map[string]string) answer {
	return answer{status, "application/json", `{"error":{"code":"` + code + `","message":"broken"}}`, header}
}

// serving starts an app that always returns this answer, and returns its
// address.
func serving(t *testing.T, a answer) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { a.write(w) }))
	t.Cleanup(server.Close)
	return server.URL
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

// appOf returns an app behind a tripper. said collects the messages.
func appOf(t *testing.T, f tripper, said *[]string) *app {
	t.Helper()
	a := &app{from: "--url", say: func(format string, args ...any) { *said = append(*said, fmt.Sprintf(format, args...)) }}
	a.notice = a.notify
	var err error
	a.Client, err = client.New("http://app.example", &client.Options{HTTP: &http.Client{Transport: f}, Notify: func(n client.Notice) { a.notice(n) }})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// errHangs is an app that does not answer.
var errHangs = errors.New("hangs")

// answering returns the answers and errors in order, and repeats the last one.
// A 202 takes as long as the requested timeout.
func answering(answers ...any) tripper {
	return func(r *http.Request) (a answer, err error) {
		next := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		if err, ok := next.(error); ok {
			if err == errHangs {
				err = pause(r.Context(), time.Hour)
			}
			return a, err
		}
		if a = next.(answer); a.status == http.StatusAccepted {
			d, _ := time.ParseDuration(r.URL.Query().Get("timeout"))
			err = pause(r.Context(), d)
		}
		return a, err
	}
}

// pause waits for the given time or until ctx ends.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestFindAddress checks the order of the places that name the app.
func TestFindAddress(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	inner := filepath.Join(root, "project", "functions", "One")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	file := func(dir, text string) string {
		path := filepath.Join(root, dir, urlFile)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	address := func(env string, flags ...string) (address, from string, err error) {
		con := newConsole(nil, map[string]string{urlVariable: env}, nil, io.Discard, io.Discard)
		cmd := con.nextCommand()
		if err := cmd.ParseFlags(flags); err != nil {
			t.Fatal(err)
		}
		url, _ := cmd.Flags().GetString("url")
		return con.findAddress(target{url: url, flags: cmd.Flags()})
	}
	expect := func(step, env, flag, want, wantFrom, wantErr string) {
		t.Helper()
		var flags []string
		if flag != "" {
			flags = []string{"--url=" + strings.TrimPrefix(flag, "empty")}
		}
		got, from, err := address(env, flags...)
		expectError(t, step, err, wantErr)
		if err == nil && (got != want || from != wantFrom) {
			t.Errorf("%s: %q from %q, want %q from %q", step, got, from, want, wantFrom)
		}
	}

	expect("nothing", "", "", defaultURL, "the default", "")
	above := file("", "http://127.0.0.1:1\n")
	t.Chdir(inner)
	expect("a file above", "", "", "http://127.0.0.1:1", above, "")
	nearer := file("project", "http://127.0.0.1:2\n")
	expect("a nearer file", "", "", "http://127.0.0.1:2", nearer, "")
	expect("the environment", "http://127.0.0.1:3", "", "http://127.0.0.1:3", urlVariable, "")
	expect("a flag", "http://127.0.0.1:3", "http://127.0.0.1:4", "http://127.0.0.1:4", "--url", "")
	expect("an empty flag is not left out", "http://127.0.0.1:3", "empty", "", "--url", "")

	expect("no scheme, this machine", "", "127.0.0.1:5", "http://127.0.0.1:5", "--url", "")
	expect("no scheme, its name", "localhost:5", "", "http://localhost:5", urlVariable, "")
	expect("no scheme, IPv6", "", "[::1]:5", "http://[::1]:5", "--url", "")
	expect("no scheme, elsewhere", "", "app.example:5", "", "", "--url has no scheme; write https://app.example:5")
	expect("no scheme, with a key", "", "app.example?code=secret", "", "", "--url has no scheme; write https:// before the host")

	code, _, stderr := call(t, map[string]string{urlVariable: "https://user:secret@app.example"}, "next")
	if code != exitUsage || !strings.HasPrefix(stderr, "kennel next: KENNEL_URL: the address must be only") || strings.Contains(stderr, "secret") {
		t.Errorf("invalid address: code %d, stderr %q", code, stderr)
	}
	for _, text := range []string{"", "http://app.example", "https://127.0.0.1", "127.0.0.1:5"} {
		path := file("project", text)
		expect("a file with "+text, "", "", "", "", path+" is not the address of an app on this machine")
	}
}

// TestExplain checks what a person reads about a request that failed.
func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		answer answer
		want   string // a part of standard error
	}{
		{
			"error of the app", nil, answer{400, "application/json", `{"error":{"code":"bad_count","message":"count is above \u001b[1m10000"}}`, nil},
			"kennel next: the app returned 400 bad_count: count is above \ufffd[1m10000\n",
		},
		{"a request that is in the log", nil, appError(500, "internal", map[string]string{"X-Request-Id": "abc"}), "500 internal: broken (request abc)"},
		{"no key", nil, answer{401, "", "", nil}, "requires a function key (401); set KENNEL_KEY or use --key"},
		{"wrong key", []string{"--key", "secret"}, answer{401, "", "", nil}, "rejected this function key"},
		{"no app", nil, answer{404, "", "", nil}, "does not serve this request (404); check that --url is the app's address, without /api"},
		{"another site", nil, answer{200, "text/html", "<h1>hello</h1>", nil}, "content type \"text/html\" instead of JSON"},
		{"redirect", nil, answer{301, "", "", map[string]string{"Location": "https://example.com/"}}, "to https://example.com/; use that address with --url"},
		{"busy without Retry-After", nil, answer{503, "", "", nil}, "returned 503 Service Unavailable"},
		{
			"Retry-After is too long", nil, answer{503, "", "", map[string]string{"Retry-After": "3600"}},
			"its Retry-After is 1h0m0s, and a call waits at most 30s",
		},
		{"other numbers than requested", nil, answer{200, "application/json", `{"sequence":"orders","first":1,"last":2,"count":2}`, nil}, "numbers may have been drawn and lost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := call(t, nil, append([]string{"next", "--url", serving(t, tt.answer)}, tt.args...)...)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, tt.want) || strings.Contains(stderr, "secret") {
				t.Errorf("code %d, stdout %q, stderr %q\nwant code %d and stderr with %q, without the key", code, stdout, stderr, exitFailed, tt.want)
			}
		})
	}
}

// TestExplainDefaultAddress: at the default address, no message names a flag
// that was not used as a cause.
func TestExplainDefaultAddress(t *testing.T) {
	a := &app{from: fromDefault}
	same(t, "no app", "cannot connect to "+defaultURL+"; start the app with `kennel up`, or name the app's address with --url",
		a.explainNotReached(&client.NoAnswerError{Address: defaultURL, Err: io.EOF}))
	same(t, "another program", defaultURL+" does not serve this request (404); name the app's address with --url, without /api",
		a.explainRefusal(&client.Error{Status: 404, Address: defaultURL}))
}

// TestRetriesShowWhy checks that a retry shows the reason, once.
func TestRetriesShowWhy(t *testing.T) {
	busy := func(code string) answer { return appError(503, code, map[string]string{"Retry-After": "2"}) }
	numbers := answer{200, "application/json", `{"sequence":"orders","first":5,"last":5,"count":1}`, nil}
	synctest.Test(t, func(t *testing.T) {
		var said []string
		app := appOf(t, answering(busy("storage_unavailable"), busy("storage_unavailable"), busy("too_many_waiting"), numbers), &said)
		if _, err := app.Next(t.Context(), "orders", 1); err != nil {
			t.Fatal(err)
		}
		same(t, "said", []string{
			"the app returned 503 storage_unavailable: broken; retrying in 2s (1 of 5)",
			"no change; retrying in 2s (2 of 5)",
			"the app returned 503 too_many_waiting: broken; retrying in 2s (3 of 5)",
		}, said)
	})
}

// TestKey checks which key is sent: that of the flag before that of the
// environment.
func TestKey(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("X-Functions-Key")
		answer{200, "application/json", `{"sequence":"orders","first":5,"last":5,"count":1}`, nil}.write(w)
	}))
	defer server.Close()
	env := map[string]string{keyVariable: "from env"}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "from env"},
		{[]string{"--key", "from flag"}, "from flag"},
	} {
		code, stdout, stderr := call(t, env, append([]string{"next", "--url", server.URL}, tt.args...)...)
		if code != exitDone || stdout != "5\n" || got != tt.want {
			t.Errorf("%v: code %d, stdout %q, stderr %q, key %q, want %q", tt.args, code, stdout, stderr, got, tt.want)
		}
	}
	code, _, stderr := call(t, map[string]string{keyVariable: "line\nbreak"}, "next")
	if code != exitUsage || !strings.HasPrefix(stderr, "kennel next: KENNEL_KEY: the function key has characters") {
		t.Errorf("invalid key: code %d, stderr %q", code, stderr)
	}
}
