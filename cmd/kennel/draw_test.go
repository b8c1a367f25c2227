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
		answer answer

		code   int
		stdout string
		stderr string // a part of it
	}{
		{"one number a line", []string{"--count", "2"}, answer{200, "text/plain; charset=utf-8", "1001\n1002\n", nil}, exitDone, "1001\n1002\n", ""},
		{
			"JSON on one line", []string{"--json"}, answer{200, "application/json", "{\"sequence\": \"orders\",\n \"first\": 9007199254740991}", nil},
			exitDone, "{\"sequence\":\"orders\",\"first\":9007199254740991}\n", "",
		},
		{"fewer numbers than requested", []string{"--count", "3"}, answer{200, "text/plain", "1\n2\n", nil}, exitFailed, "1\n2\n", "gave 2 numbers where 3 were asked for"},
		{
			"broken connection", []string{"--count", "3"}, answer{200, "text/plain", "7\n8\n", map[string]string{"Content-Length": "100"}},
			exitFailed, "7\n8\n", "after 2 of 3",
		},
		{"no number", nil, answer{200, "text/plain", "hello\n", nil}, exitFailed, "", `answered "hello" where a number belongs`},
		{"another site", nil, answer{200, "text/html", "<h1>hello</h1>", nil}, exitFailed, "", "is it the app's address?"},
		{
			"the app's own explanation", nil, answer{400, "application/json", `{"error":{"code":"count","message":"count is above \u001b[1m10000"}}`, nil},
			exitFailed, "", "the app answered 400 count: count is above \ufffd[1m10000",
		},
		{"no key", nil, answer{401, "", "", nil}, exitFailed, "", "wants a function key (401): put it into KENNEL_KEY"},
		{"wrong key", []string{"--key", "secret"}, answer{401, "", "", nil}, exitFailed, "", "does not accept this function key"},
		{"no such function", nil, answer{404, "", "", nil}, exitFailed, "", "is it the app's address, without /api?"},
		{
			"redirect", nil, answer{301, "", "", map[string]string{"Location": "https://example.com/"}},
			exitFailed, "", "to https://example.com/: give the address it points to",
		},
		{"busy without a time to come back", nil, answer{503, "", "", nil}, exitFailed, "", "answered 503 Service Unavailable"},
		{
			"too far away a time to come back", nil, answer{503, "", "", map[string]string{"Retry-After": "3600"}},
			exitFailed, "", "come back in 1h0m0s, which is longer than kennel waits",
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
			"the flag wins over the environment", env, []string{server.URL + "/behind/proxy", "--key", "from flag"},
			[]string{"POST", "/behind/proxy/api/sequences/orders/next?count=1", "text/plain", "from flag"},
		},
	} {
		code, _, stderr := call(t, tt.env, append([]string{"next", "--url"}, tt.args...)...)
		if diff := cmp.Diff(tt.want, got); code != exitDone || diff != "" {
			t.Errorf("%s: code %d, stderr %q, request (-want +got):\n%s", tt.name, code, stderr, diff)
		}
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

// An app that stays busy is given up after 6 tries, or when the caller stops.
func TestBusyAppIsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		retryAfter string
		calls      int
		err        string
	}{
		{"1", 6, "gave up after 6 tries"},
		{"30", 1, context.DeadlineExceeded.Error()},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			d := drawing(func(*http.Request) (answer, error) {
				calls++
				return answer{503, "", "", map[string]string{"Retry-After": tt.retryAfter}}, nil
			}, new([]string))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := d.printLines(ctx, io.Discard); err == nil || !strings.Contains(err.Error(), tt.err) || calls != tt.calls {
				t.Errorf("after %d calls: %v; want %d calls and %q", calls, err, tt.calls, tt.err)
			}
		})
	}
}

func TestNothingElseIsRepeated(t *testing.T) {
	for _, status := range []int{0, 400, 401, 404, 408, 409, 429, 500, 502, 504} { // 0 is no answer
		calls, want := 0, strconv.Itoa(status)
		d := drawing(func(*http.Request) (answer, error) {
			calls++
			if status == 0 {
				want = "numbers may have been drawn"
				return answer{}, errors.New("reset by peer")
			}
			return answer{status, "", "", map[string]string{"Retry-After": "0"}}, nil
		}, new([]string))
		if err := d.printLines(t.Context(), io.Discard); err == nil || calls != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %d calls, error %v; want one call and an error with %q", status, calls, err, want)
		}
	}
}
