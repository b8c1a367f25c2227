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

// TestForwardedStuck proves that the caller gets an answer from a function that
// ignores its context, whatever the function does, and that the server survives.
func TestForwardedStuck(t *testing.T) {
	const whole, timeout, broken = "0123456789", "504 Gateway Timeout", ""
	for _, tt := range []struct{ how, body, want string }{ // the Content-Length of the body is 10
		{"doing-nothing", whole, timeout},
		{"reading-a-body-that-does-not-come", "012", timeout},
		{"changing-headers", whole, timeout},
		{"panicking-later", whole, timeout},
		{"after-half-an-answer", whole, broken},
		{"writing-without-end", whole, broken},
		{"not-at-all-but-without-the-body", "012", "204 No Content"},
	} {
		t.Run(tt.how, func(t *testing.T) {
			release, returned := make(chan struct{}), make(chan struct{})
			book := &logBook{}
			app := newApp(t, Options{Log: book.logger(), HTTPTimeout: 50 * time.Millisecond})
			app.HTTP("Stuck", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(returned)
				switch tt.how {
				case "not-at-all-but-without-the-body":
					w.WriteHeader(http.StatusNoContent)
					return
				case "reading-a-body-that-does-not-come":
					_, _ = io.ReadAll(r.Body)
				case "after-half-an-answer":
					w.Header().Set("Content-Length", "100")
					_, _ = io.WriteString(w, "half")
				}
				for stuck := true; stuck; {
					select {
					case <-release:
						stuck = false
					default:
						switch tt.how {
						case "changing-headers":
							w.Header().Set("X-Count", "1")
						case "writing-without-end":
							_, _ = io.WriteString(w, "more")
						default:
							time.Sleep(time.Millisecond)
						}
					}
				}
				if _, err := io.WriteString(w, "late"); !errors.Is(err, http.ErrHandlerTimeout) {
					t.Errorf("writing after the end of the call: %v, want ErrHandlerTimeout", err)
				}
				if tt.how == "panicking-later" {
					panic("after the answer")
				}
			}), "POST /api/stuck")
			server, client := serve(t, app)
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
				if tt.want == timeout && (err != nil || !strings.HasPrefix(string(body), `{"error":{"code":"timeout"`)) {
					t.Errorf("answer = %s %q (%v), want %s and the reason", resp.Status, body, err, tt.want)
				}
			}
			if (err != nil) != (tt.want == broken) || err == nil && resp.Status != tt.want {
				t.Errorf("answer = %+v, %v, want %q", resp, err, tt.want)
			}
			conn.Close()
			close(release)
			<-returned
			if got := strings.Contains(book.String(), "abandoned"); got == (tt.want == "204 No Content") {
				t.Errorf("log reports an abandoned function: %t\n%s", got, book)
			}
			if err := client.Ready(t.Context()); err != nil {
				t.Errorf("readiness afterwards: %v", err)
			}
		})
	}
}

// TestForwardedContext proves what a function sees of the end of a call.
func TestForwardedContext(t *testing.T) {
	seen := make(chan string, 1)
	app := newApp(t, Options{HTTPTimeout: time.Second})
	var kept context.Context
	app.HTTP("Keeps", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { kept = r.Context() }), "/api/keeps")
	started := make(chan struct{}, 1)
	app.HTTP("Waits", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		<-r.Context().Done()
		seen <- invocationFrom(r.Context()).id + ": " + r.Context().Err().Error()
		WriteError(w, r, fmt.Errorf("wait: %w", r.Context().Err()))
	}), "/api/waits")

	app.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/api/keeps", nil))
	if err := kept.Err(); err != context.Canceled {
		t.Errorf("context after the call: %v, want %v", err, context.Canceled)
	}

	synctest.Test(t, func(t *testing.T) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/waits", nil)
		r.Header["X-Azure-Functions-Invocationid"] = []string{"client", "host"}
		w := httptest.NewRecorder()
		start := time.Now()
		app.ServeHTTP(w, r)
		if got, want := <-seen, "host: context deadline exceeded"; w.Code != 504 || got != want || time.Since(start) != 950*time.Millisecond {
			t.Errorf("the function saw %q after %v and answered %d, want %q after 950ms and 504", got, time.Since(start), w.Code, want)
		}
	})
	<-started

	server, _ := serve(t, app)
	ctx, hangUp := context.WithCancel(t.Context())
	go func() {
		r, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/api/waits", nil)
		if resp, err := server.Client().Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	<-started
	hangUp()
	if _, got, _ := strings.Cut(<-seen, ": "); got != context.Canceled.Error() {
		t.Errorf("the function saw %q when the caller hung up, want %q", got, context.Canceled)
	}
}

// pipeWriter is a writer that gives its connection away.
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

// TestForwardedEndsInTime proves in virtual time that a call ends at its limit,
// with an answer if the server gives its connection away.
func TestForwardedEndsInTime(t *testing.T) {
	server, client := net.Pipe()
	defer client.Close()
	// After a call that returned just before its limit, the connection stays
	// with the server.
	out, discard := &callWriter{w: &pipeWriter{conn: server}}, slog.New(slog.DiscardHandler)
	out.end(t.Context(), discard)
	out.giveUp(t.Context(), discard, time.Second)
	if err := server.SetDeadline(time.Time{}); err != nil {
		t.Errorf("giveUp closed the connection after the call: %v", err)
	}

	for _, hijack := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			book := &logBook{}
			app := newApp(t, Options{Log: book.logger(), HTTPTimeout: 100 * time.Second})
			app.HTTP("Stuck", "req", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(time.Hour)
				w.WriteHeader(http.StatusOK)
				if err := http.NewResponseController(w).Flush(); err == nil || len(w.Header()) != 0 {
					t.Errorf("flushing after the end of the call: %v, want an error", err)
				}
			}), "/api/stuck")
			start := time.Now()
			w := &pipeWriter{}
			server, client := net.Pipe()
			if hijack {
				w.conn = server
			}
			go app.ServeHTTP(w, httptest.NewRequest("GET", "/api/stuck", nil))
			_ = client.SetDeadline(start.Add(10 * time.Minute))
			resp, err := http.ReadResponse(bufio.NewReader(client), nil)
			if hijack && (err != nil || resp.StatusCode != 504 || time.Since(start) != 100*time.Second) {
				t.Errorf("answer = %v, %v after %v, want 504 after 1m40s", resp, err, time.Since(start))
			}
			time.Sleep(2 * time.Hour)
			if got := strings.Contains(book.String(), "its caller waits"); got == hijack {
				t.Errorf("log reports that the caller waits: %t, want %t", got, !hijack)
			}
		})
	}
}
