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
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answer is what a test server says.
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
		env    map[string]string
		answer answer

		wantCode   int
		wantStdout string
		wantStderr string // a part of it
	}{
		{
			name:       "one number a line",
			args:       []string{"--count", "2"},
			answer:     answer{200, "text/plain; charset=utf-8", "1001\n1002\n", nil},
			wantStdout: "1001\n1002\n",
		},
		{
			name:       "JSON on one line",
			args:       []string{"--json"},
			answer:     answer{200, "application/json", "{\"sequence\": \"orders\",\n \"first\": 9007199254740991}", nil},
			wantStdout: "{\"sequence\":\"orders\",\"first\":9007199254740991}\n",
		},
		{
			name:       "fewer numbers than asked for",
			args:       []string{"--count", "3"},
			answer:     answer{200, "text/plain", "1\n2\n", nil},
			wantCode:   exitFailed,
			wantStdout: "1\n2\n",
			wantStderr: "gave 2 numbers where 3 were asked for",
		},
		{
			name:       "no number",
			answer:     answer{200, "text/plain", "hello\n", nil},
			wantCode:   exitFailed,
			wantStderr: `answered "hello" where a number belongs`,
		},
		{
			name:       "somebody else's page",
			answer:     answer{200, "text/html", "<h1>hello</h1>", nil},
			wantCode:   exitFailed,
			wantStderr: "is it the app's address?",
		},
		{
			name:       "the app's own explanation",
			args:       []string{"--count", "99999999"},
			answer:     answer{400, "application/json", `{"error":{"code":"count","message":"count is above \u001b[1m10000"}}`, nil},
			wantCode:   exitFailed,
			wantStderr: "the app answered 400 count: count is above \ufffd[1m10000",
		},
		{
			name:       "no key",
			answer:     answer{401, "", "", nil},
			wantCode:   exitFailed,
			wantStderr: "wants a function key (401): put it into KENNEL_KEY",
		},
		{
			name:       "wrong key",
			env:        map[string]string{"KENNEL_KEY": "secret"},
			answer:     answer{401, "", "", nil},
			wantCode:   exitFailed,
			wantStderr: "does not accept this function key",
		},
		{
			name:       "no such function",
			answer:     answer{404, "", "", nil},
			wantCode:   exitFailed,
			wantStderr: "is it the app's address, without /api?",
		},
		{
			name:       "redirect",
			answer:     answer{301, "", "", map[string]string{"Location": "https://example.com/"}},
			wantCode:   exitFailed,
			wantStderr: "to https://example.com/: give the address it points to",
		},
		{
			name:       "busy without a time to come back",
			answer:     answer{503, "", "", nil},
			wantCode:   exitFailed,
			wantStderr: "answered 503 Service Unavailable",
		},
		{
			name:       "too far away a time to come back",
			answer:     answer{503, "", "", map[string]string{"Retry-After": "3600"}},
			wantCode:   exitFailed,
			wantStderr: "come back in 1h0m0s, which is longer than kennel waits",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { test.answer.write(w) }))
			defer server.Close()
			code, stdout, stderr := call(t, test.env, append([]string{"next", "--url", server.URL}, test.args...)...)
			if code != test.wantCode || stdout != test.wantStdout || !strings.Contains(stderr, test.wantStderr) {
				t.Errorf("code %d, stdout %q, stderr %q\nwant code %d, stdout %q, stderr with %q",
					code, stdout, stderr, test.wantCode, test.wantStdout, test.wantStderr)
			}
			if strings.Contains(stderr, "secret") {
				t.Errorf("the key is in the message: %q", stderr)
			}
		})
	}
}

func TestNextRequest(t *testing.T) {
	type request struct{ Method, URI, Accept, Key string }
	var got request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = request{r.Method, r.RequestURI, r.Header.Get("Accept"), r.Header.Get("X-Functions-Key")}
		answer{status: 200, contentType: r.Header.Get("Accept"), body: "1"}.write(w)
	}))
	defer server.Close()

	tests := []struct {
		name string
		env  map[string]string
		args []string
		want request
	}{
		{
			name: "as it comes",
			args: []string{"--url", server.URL + "/"},
			want: request{"POST", "/api/sequences/orders/next?count=1", "text/plain", ""},
		},
		{
			name: "a name that needs escaping, JSON, a key from the environment",
			env:  map[string]string{"KENNEL_KEY": "from env"},
			args: []string{"--url", server.URL, "--sequence", "a/b c?", "--json"},
			want: request{"POST", "/api/sequences/a%2Fb%20c%3F/next?count=1", "application/json", "from env"},
		},
		{
			name: "the flag wins over the environment",
			env:  map[string]string{"KENNEL_KEY": "from env"},
			args: []string{"--url", server.URL + "/behind/proxy", "--key", "from flag"},
			want: request{"POST", "/behind/proxy/api/sequences/orders/next?count=1", "text/plain", "from flag"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, _, stderr := call(t, test.env, append([]string{"next"}, test.args...)...)
			if code != exitDone {
				t.Fatalf("code %d, stderr %q", code, stderr)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNextPrintsWhatArrivedBeforeTheConnectionBroke(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		answer{status: 200, contentType: "text/plain", body: "7\n8\n"}.write(w)
	}))
	defer server.Close()
	code, stdout, stderr := call(t, nil, "next", "--url", server.URL, "--count", "3")
	if code != exitFailed || stdout != "7\n8\n" || !strings.Contains(stderr, "after 2 of 3") {
		t.Errorf("code %d, stdout %q, stderr %q; want 1, the two numbers, and how many are missing", code, stdout, stderr)
	}
}

// tripper answers requests without a network, so that time is virtual.
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

// drawing is a draw of one number by way of the tripper; said collects what it
// told the caller.
func drawing(f tripper, said *[]string) draw {
	return newDraw(remoteOf(f, said), "orders", 1)
}

func remoteOf(f tripper, said *[]string) remote {
	return remote{
		client: &http.Client{Transport: f},
		base:   &url.URL{Scheme: "http", Host: "app.example"},
		say:    func(format string, args ...any) { *said = append(*said, fmt.Sprintf(format, args...)) },
	}
}

func TestBusyAppIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, calls := time.Now(), 0
		var said []string
		d := drawing(func(*http.Request) (answer, error) {
			calls++
			switch calls {
			case 1:
				return answer{503, "", "", map[string]string{"Retry-After": "2"}}, nil
			case 2:
				at := time.Now().Add(10 * time.Second).UTC().Format(http.TimeFormat)
				return answer{503, "", "", map[string]string{"Retry-After": at}}, nil
			}
			return answer{200, "text/plain", "5\n", nil}, nil
		}, &said)

		var out bytes.Buffer
		if err := d.printLines(t.Context(), &out); err != nil || out.String() != "5\n" {
			t.Fatalf("got %q, %v; want 5", out.String(), err)
		}
		if got, want := time.Since(begin), 12*time.Second; got != want {
			t.Errorf("waited %s, want %s", got, want)
		}
		want := []string{"the app is busy; trying again in 2s (1 of 5)", "the app is busy; trying again in 10s (2 of 5)"}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("said (-want +got):\n%s", diff)
		}
	})
}

func TestBusyAppIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		var said []string
		d := drawing(func(*http.Request) (answer, error) {
			calls++
			return answer{503, "", "", map[string]string{"Retry-After": "1"}}, nil
		}, &said)
		err := d.printLines(t.Context(), io.Discard)
		if err == nil || !strings.Contains(err.Error(), "gave up after 6 tries") || calls != 6 {
			t.Errorf("after %d calls: %v; want 6 calls and an error that says so", calls, err)
		}
	})
}

func TestWaitForABusyAppCanBeInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		d := drawing(func(*http.Request) (answer, error) {
			return answer{503, "", "", map[string]string{"Retry-After": "30"}}, nil
		}, &said)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.printLines(ctx, io.Discard); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
	})
}

func TestNothingElseIsRepeated(t *testing.T) {
	for _, status := range []int{400, 401, 404, 408, 409, 429, 500, 502, 504} {
		calls := 0
		var said []string
		d := drawing(func(*http.Request) (answer, error) {
			calls++
			return answer{status, "", "", map[string]string{"Retry-After": "0"}}, nil
		}, &said)
		if err := d.printLines(t.Context(), io.Discard); err == nil || calls != 1 {
			t.Errorf("%d: %d calls, error %v; want one call and an error", status, calls, err)
		}
	}
	calls := 0
	var said []string
	d := drawing(func(*http.Request) (answer, error) {
		calls++
		return answer{}, errors.New("reset by peer")
	}, &said)
	err := d.printLines(t.Context(), io.Discard)
	if err == nil || calls != 1 || !strings.Contains(err.Error(), "numbers may have been drawn") {
		t.Errorf("lost answer: %d calls, error %v; want one call and a word on the gap", calls, err)
	}
}
