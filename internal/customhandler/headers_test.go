package customhandler

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// expectStanding checks the headers that every answer has.
func expectStanding(t *testing.T, what string, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"Cache-Control":             "no-store",
		"Content-Security-Policy":   "default-src 'none'; frame-ancestors 'none'",
		"Referrer-Policy":           "no-referrer",
		"Strict-Transport-Security": "max-age=31536000",
		"X-Content-Type-Options":    "nosniff",
	} {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %s is %q, want %q", what, name, got, want)
		}
	}
}

// TestStandingHeadersOfFunctions: a function can replace and add values in one
// answer, and errors are stored by no cache all the same.
func TestStandingHeadersOfFunctions(t *testing.T) {
	app := newApp(t, Options{})
	app.HTTP("Pages", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Add("Content-Security-Policy", "img-src data:")
		if r.URL.Path == "/api/pages/none" {
			WriteError(w, r, &Error{http.StatusNotFound, "not_found", "none"})
		}
	}), "/api/pages/{page}")
	for path, want := range map[string]string{"/api/pages/a": "max-age=60", "/api/pages/none": "no-store"} {
		w := httptest.NewRecorder()
		app.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if got := w.Header(); got.Get("Cache-Control") != want || len(got["Content-Security-Policy"]) != 2 {
			t.Errorf("%s: headers %v, want Cache-Control %s and two policies", path, got, want)
		}
	}
	w := httptest.NewRecorder()
	app.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	expectStanding(t, "the next answer", w.Header())
}

// TestHeaderFloods: a request with many, long or slow headers ends without the
// function, and the next one is served.
func TestHeaderFloods(t *testing.T) {
	lines := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+"\r\n", i)
		}
		return b.String()
	}
	const ok, status = "HTTP/1.1 200 ", "HTTP/1.1 431 "
	for _, tt := range []struct{ name, header, want, body string }{
		{"as the host", lines(100, "X-%d: a"), ok, "{}"},
		{"as many as allowed", lines(maxHeaderLines, "X-%d: a"), ok, "{}"},
		{"too many", lines(maxHeaderLines+1, "X-%d: a"), status, `{"error":{"code":"too_many_headers","message":"The request has 201 headers. Send at most 200."}}`},
		{"too many of one name", lines(maxHeaderLines+1, "X: %d"), status, `"too_many_headers"`},
		{"many that are short", lines(20_000, "%d:"), status, ""},
		{"a long one", "X: " + strings.Repeat("a", maxHeaderBytes-1<<10) + "\r\n", ok, "{}"},
		{"one too long", "X: " + strings.Repeat("a", maxHeaderBytes+8<<10) + "\r\n", status, ""},
		{"a line that continues", "X: a\r\n b: c\r\n", ok, "{}"},
		{"no name", ": a\r\n", "HTTP/1.1 400 ", ""},
		{"a CR in a value", "X: a\rY: b\r\n", "HTTP/1.1 400 ", ""},
		{"a NUL in a value", "X: a\x00b\r\n", "HTTP/1.1 400 ", ""},
		{"without an end", "X: a", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				app := newApp(t, Options{})
				pipes := make(pipeListener, 1)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- app.Serve(ctx, pipes) }()
				began := time.Now()
				answer := pipes.send("GET / HTTP/1.1\r\nHost: h\r\n" + tt.header + strings.Repeat("\r\n", min(1, len(tt.want))))
				if !strings.HasPrefix(answer, tt.want) || !strings.Contains(answer, tt.body) {
					t.Errorf("answer %.300q, want %q with %s", answer, tt.want, tt.body)
				}
				if took := time.Since(began); tt.want == "" && took != 10*time.Second || tt.want != "" && took > time.Second {
					t.Errorf("it took %v", took)
				}
				if next := pipes.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"); !strings.HasPrefix(next, ok) {
					t.Errorf("next answer %q", next)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// pipeListener accepts the server's ends of pipes.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	conn, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// Close is called once: net/http sees to that.
func (l pipeListener) Close() error { close(l); return nil }

func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// send sends a text on a connection of its own and returns the beginning of the
// answer: until its body, or the end of the connection.
func (l pipeListener) send(text string) string {
	ours, theirs := net.Pipe()
	defer ours.Close()
	l <- theirs
	go ours.Write([]byte(text))
	var answer strings.Builder
	for reader := bufio.NewReader(ours); ; {
		line, err := reader.ReadString('\n')
		answer.WriteString(line)
		if err != nil {
			return answer.String()
		}
		if line == "\r\n" {
			rest := make([]byte, 200)
			n, _ := reader.Read(rest)
			return answer.String() + string(rest[:n])
		}
	}
}
