package customhandler

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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

func TestForwarded(t *testing.T) {
	app := New(&Options{Log: slog.New(slog.DiscardHandler), MaxBody: 10})
	app.HTTP("Echo", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			WriteError(w, r, err)
			return
		}
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		fmt.Fprintf(w, "%s %s %s %s\xff", r.Method, r.PathValue("id"), r.URL.RawQuery, body)
		_ = http.NewResponseController(w).Flush()
	}), "POST /api/echo/{id}", "GET /api/echo/{id}")
	app.HTTP("Ends", "req", HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		switch r.PathValue("how") {
		case "panic":
			w.Header().Set("Content-Encoding", "gzip")
			panic("oh")
		case "panic-halfway":
			_, _ = io.WriteString(w, strings.Repeat("x", 100))
			panic("oh")
		case "no-status":
			w.WriteHeader(0)
		case "abort":
			panic(http.ErrAbortHandler)
		case "error-halfway":
			_, _ = io.WriteString(w, strings.Repeat("x", 100))
			return errors.New("no room")
		case "refusal":
			return fmt.Errorf("read it: %w", &Error{http.StatusConflict, "taken", "this name is taken: choose another"})
		case "error":
			return errors.New("password=s3cret")
		case "emit":
			return Emit(r.Context(), "outq", "x")
		}
		return nil
	}), "/api/ends/{how}")
	server := httptest.NewServer(app)
	defer server.Close()

	tests := []struct {
		name, method, path string
		body               io.Reader
		status             int // 0: the connection breaks
		want               string
	}{
		{"as it came", "POST", "/api/echo/42?a=1&a=2", strings.NewReader("body"), 200, "POST 42 a=1&a=2 body\xff"},
		{"escaped path value", "GET", "/api/echo/a%2Fb%20c", nil, 200, "GET a/b c  \xff"},
		{"the host ignores case", "GET", "/API/Echo/Ab", nil, 200, "GET Ab  \xff"},
		{"the host ignores a last slash", "GET", "/api/echo/42/?a=1", nil, 200, "GET 42 a=1 \xff"},
		{"case and escapes", "GET", "/api/ECHO/a%2FB", nil, 200, "GET a/B  \xff"},
		{"unknown route", "GET", "/api/echoes/42", nil, 404, `{"error":{"code":"not_found",`},
		{"wrong method", "DELETE", "/api/echo/42", nil, 405, `{"error":{"code":"method_not_allowed",`},
		{"wrong method in another case", "DELETE", "/api/ECHO/42", nil, 405, `{"error":{"code":"method_not_allowed",`},
		{"body too large", "POST", "/api/echo/42", strings.NewReader("eleven byte"), 413, `{"error":{"code":"body_too_large",`},
		{"body too large and chunked", "POST", "/api/echo/42", io.MultiReader(strings.NewReader("eleven byte")), 413, `{"error":{"code":"body_too_large",`},
		{"panic", "GET", "/api/ends/panic", nil, 500, `{"error":{"code":"internal",`},
		{"panic in the middle of an answer", "GET", "/api/ends/panic-halfway", nil, 0, ""},
		{"a status that is none", "GET", "/api/ends/no-status", nil, 500, `{"error":{"code":"internal",`},
		{"broken off", "GET", "/api/ends/abort", nil, 0, ""},
		{"refusal", "GET", "/api/ends/refusal", nil, 409, `{"error":{"code":"taken","message":"this name is taken: choose another"}}`},
		{"error keeps its cause to itself", "GET", "/api/ends/error", nil, 500, `{"error":{"code":"internal","message":"this failed inside the function; its log says why"}}`},
		{"error in the middle of an answer", "GET", "/api/ends/error-halfway", nil, 0, ""},
		{"no outputs when forwarded", "GET", "/api/ends/emit", nil, 500, `{"error":{"code":"internal",`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, got, err := call(t, server, tt.method, tt.path, tt.body)
			if tt.status == 0 {
				if err == nil {
					t.Errorf("answer = %d %q, want a broken connection", resp.StatusCode, got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.status || !strings.HasPrefix(got, tt.want) {
				t.Errorf("answer = %d %q, want %d %q", resp.StatusCode, got, tt.status, tt.want)
			}
			if tt.status >= 400 && (resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("Cache-Control") != "no-store") {
				t.Errorf("headers of an error = %v, want plain JSON that nobody keeps", resp.Header)
			}
			if got := len(resp.Header.Values("Set-Cookie")); tt.status == 200 && got != 2 {
				t.Errorf("%d cookies, want both", got)
			}
			if got := resp.Header.Get("Allow"); tt.status == 405 && got != "GET, HEAD, POST" {
				t.Errorf("Allow = %q, want GET, HEAD, POST", got)
			}
		})
	}
}

// TestForwardedStuck: a caller gets its answer from a function that ignores its context, whatever it is busy with, and
// the server stays sound.
func TestForwardedStuck(t *testing.T) {
	tests := []struct {
		name  string
		stuck func(w http.ResponseWriter, r *http.Request, release <-chan struct{})
		body  string // of Content-Length 10; what is missing never comes
		want  string // "": the connection breaks
	}{
		{"doing nothing", func(w http.ResponseWriter, r *http.Request, release <-chan struct{}) { <-release }, "0123456789", "HTTP/1.1 504 Gateway Timeout"},
		{"reading a body that does not come", func(w http.ResponseWriter, r *http.Request, release <-chan struct{}) {
			_, _ = io.ReadAll(r.Body)
			<-release
		}, "012", "HTTP/1.1 504 Gateway Timeout"},
		{"changing headers", func(w http.ResponseWriter, r *http.Request, release <-chan struct{}) {
			for i := 0; ; i++ {
				select {
				case <-release:
					return
				default:
					w.Header().Set("X-Count", fmt.Sprint(i%10))
				}
			}
		}, "0123456789", "HTTP/1.1 504 Gateway Timeout"},
		{"after half an answer", func(w http.ResponseWriter, r *http.Request, release <-chan struct{}) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
			<-release
		}, "0123456789", ""},
		{"writing without end", func(w http.ResponseWriter, r *http.Request, release <-chan struct{}) {
			for {
				select {
				case <-release:
					return
				default:
					_, _ = io.WriteString(w, "more")
				}
			}
		}, "0123456789", ""},
		{"and panicking later", func(w http.ResponseWriter, r *http.Request, release <-chan struct{}) {
			<-release
			panic("too late to tell")
		}, "0123456789", "HTTP/1.1 504 Gateway Timeout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			release, returned := make(chan struct{}), make(chan struct{})
			book := &logBook{}
			app := New(&Options{Log: book.logger(), HTTPTimeout: 50 * time.Millisecond})
			app.HTTP("Stuck", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(returned)
				tt.stuck(w, r, release)
				if _, err := w.Write([]byte("late")); !errors.Is(err, http.ErrHandlerTimeout) {
					t.Errorf("writing after the call is over: %v, want ErrHandlerTimeout", err)
				}
			}), "POST /api/stuck")
			server := httptest.NewServer(app)
			defer server.Close()
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST /api/stuck HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n%s", tt.body)

			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err == nil {
				var body []byte
				body, err = io.ReadAll(resp.Body)
				if tt.want != "" && (err != nil || resp.Proto+" "+resp.Status != tt.want || !strings.HasPrefix(string(body), `{"error":{"code":"timeout"`)) {
					t.Errorf("answer = %s %s %q (%v), want %s and the reason", resp.Proto, resp.Status, body, err, tt.want)
				}
			}
			if (err != nil) != (tt.want == "") {
				t.Errorf("read the answer: %v, want %q", err, tt.want)
			}
			conn.Close()
			close(release)
			<-returned
			if !strings.Contains(book.String(), "left behind") {
				t.Errorf("log does not say that the function was left behind:\n%s", book)
			}
			// The process still serves.
			if resp, _, err := call(t, server, "GET", "/", nil); err != nil || resp.StatusCode != 200 {
				t.Errorf("readiness afterwards: %v", err)
			}
		})
	}
}

func TestForwardedContext(t *testing.T) {
	type seen struct {
		id       string
		deadline bool
		err      error
	}
	got := make(chan seen, 1)
	app := New(&Options{Log: slog.New(slog.DiscardHandler), HTTPTimeout: 100 * time.Millisecond})
	app.HTTP("Waits", "req", HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		_, deadline := r.Context().Deadline()
		<-r.Context().Done()
		got <- seen{InvocationID(r.Context()), deadline, r.Context().Err()}
		return fmt.Errorf("wait: %w", r.Context().Err())
	}), "/api/waits")
	server := httptest.NewServer(app)
	defer server.Close()

	r, _ := http.NewRequest("GET", server.URL+"/api/waits", nil)
	r.Header.Add("X-Azure-Functions-InvocationId", "client")
	r.Header.Add("X-Azure-Functions-InvocationId", "host")
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("status of a function that honours its deadline = %d, want 504", resp.StatusCode)
	}
	if g := <-got; g != (seen{"host", true, context.DeadlineExceeded}) {
		t.Errorf("the function saw %+v, want the host's id, a deadline, and its end", g)
	}

	// A caller that hangs up ends the context, too.
	ctx, cancel := context.WithCancel(t.Context())
	slow := New(quiet())
	started, ended := make(chan struct{}), make(chan error)
	slow.HTTP("Waits", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(started)
		<-r.Context().Done()
		ended <- r.Context().Err()
	}), "/api/waits")
	other := httptest.NewServer(slow)
	defer other.Close()
	go func() {
		r, _ := http.NewRequestWithContext(ctx, "GET", other.URL+"/api/waits", nil)
		if resp, err := other.Client().Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	<-started
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("context of a caller that hung up ended with %v, want context.Canceled", err)
	}
}

// pipeWriter is a writer whose connection can be taken away, in virtual time.
type pipeWriter struct {
	httptest.ResponseRecorder
	conn net.Conn
}

func (w *pipeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.conn == nil {
		return nil, nil, http.ErrHijacked
	}
	return w.conn, nil, nil
}

func TestForwardedEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := New(&Options{Log: slog.New(slog.DiscardHandler), HTTPTimeout: 100 * time.Second})
		release := make(chan struct{})
		var soft time.Duration
		start := time.Now()
		app.HTTP("Stuck", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			soft = time.Since(start)
			<-release
		}), "/api/stuck")
		server, client := net.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			app.ServeHTTP(&pipeWriter{conn: server}, httptest.NewRequest("GET", "/api/stuck", nil))
		}()
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil || resp.StatusCode != 504 {
			t.Errorf("answer = %v, %v, want 504", resp, err)
		}
		hard := time.Since(start)
		close(release)
		<-served
		if soft != 95*time.Second || hard != 100*time.Second {
			t.Errorf("the context ended after %v and the call after %v, want 95s and 1m40s", soft, hard)
		}
		_ = client.Close()
	})
}

// TestForwardedEndsOnce: when the function returns just before its time is up, the connection stays the server's.
func TestForwardedEndsOnce(t *testing.T) {
	server, client := net.Pipe()
	defer client.Close()
	call := &forwardedCall{limit: time.Second}
	call.out.w, call.inv.log = &pipeWriter{conn: server}, slog.New(slog.DiscardHandler)
	call.ctx.parent, call.ctx.inv = t.Context(), &call.inv
	call.end()
	call.giveUp()
	if err := server.SetDeadline(time.Now()); err != nil {
		t.Errorf("the connection was taken away after the call: %v", err)
	}

	// One that cannot be taken away is said to be lost.
	book := &logBook{}
	call = &forwardedCall{limit: time.Second}
	call.out.w, call.inv.log = &pipeWriter{}, book.logger()
	call.ctx.parent, call.ctx.inv = t.Context(), &call.inv
	call.giveUp()
	if !strings.Contains(book.String(), "cannot be answered") {
		t.Errorf("log = %q, want to read that the caller waits", book)
	}
	call.out.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(&call.out).Flush(); err == nil || len(call.out.Header()) != 0 {
		t.Errorf("flushing after the call is over: %v", err)
	}
}

func TestForwardedContextEndsWithTheCall(t *testing.T) {
	app := New(quiet())
	var kept context.Context
	app.HTTP("Keeps", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { kept = r.Context() }), "/api/keeps")
	app.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/api/keeps", nil))
	if err := kept.Err(); err != context.Canceled {
		t.Errorf("context after the call: %v, want %v", err, context.Canceled)
	}
}

// TestForwardedIsCheap keeps the path that the host forwards free of what it does not need. The figure in time is
// BenchmarkForwarded's.
func TestForwardedIsCheap(t *testing.T) {
	app := New(quiet())
	app.HTTP("Next", "req", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "POST /api/sequences/{sequence}/next")
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/api/sequences/orders/next", nil)
	got := testing.AllocsPerRun(100, func() { app.ServeHTTP(w, r) })
	if most := 6.0; got > most {
		t.Errorf("%v allocations for a forwarded call, want at most %v", got, most)
	}
}
