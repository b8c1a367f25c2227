package customhandler

import (
	"context"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestListen(t *testing.T) {
	l, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().(*net.TCPAddr)
	if address.IP.String() != "127.0.0.1" {
		t.Errorf("listening on %v, want 127.0.0.1 only", address)
	}
	if _, err := Listen(address.Port); err == nil || !strings.Contains(err.Error(), address.String()) {
		t.Errorf("Listen on a used port = %v, want an error with the address", err)
	}
}

type valueKey struct{}

func TestServe(t *testing.T) {
	tests := []struct {
		name    string
		drain   time.Duration
		finish  bool // the function may return during the drain
		wantLog string
	}{
		{"running invocations finish", time.Hour, true, ""},
		{"invocations that do not finish are canceled", time.Nanosecond, false, "canceled by the stop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			book := &logBook{}
			app := newApp(t, Options{Log: book.logger(), Timeout: time.Hour, Drain: tt.drain})
			started, release := make(chan struct{}), make(chan struct{})
			app.Queue("Work", "msg", func(ctx context.Context, _ QueueMessage) error {
				if ctx.Value(valueKey{}) != "value" {
					t.Error("the context of the invocation lacks a value of Serve's")
				}
				close(started)
				select {
				case <-release:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			l, err := Listen(0)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "value"))
			defer stop()
			ended, answered := make(chan error, 1), make(chan error, 1)
			go func() { ended <- app.Serve(ctx, l) }()
			client := NewClient("http://" + l.Addr().String())
			if err := client.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			go func() {
				_, err := client.Invoke(t.Context(), "Work", Trigger{Function: "Work", Binding: "msg"}.Queue(QueueMessage{}))
				answered <- err
			}()
			<-started
			stop()
			for err := error(nil); err == nil; { // until it accepts no calls
				var conn net.Conn
				if conn, err = net.Dial("tcp", l.Addr().String()); err == nil {
					conn.Close()
				}
			}
			if tt.finish {
				close(release)
			}
			if err := <-answered; (err == nil) != tt.finish {
				t.Errorf("invocation in flight at the stop: %v, want success: %t", err, tt.finish)
			}
			if err := <-ended; err != nil {
				t.Errorf("Serve = %v, want nil after a stop", err)
			}
			if !strings.Contains(book.String(), tt.wantLog) {
				t.Errorf("log = %q, want it to contain %q", book, tt.wantLog)
			}
		})
	}

	t.Run("an unexpected end is an error", func(t *testing.T) {
		l, err := Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if err := newApp(t, Options{}).Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
			t.Errorf("Serve on a closed listener = %v, want an error with its address", err)
		}
	})
}

// TestOwnPort: a page of another site that finds the port of the handler gets
// nothing there that the host would not give it.
func TestOwnPort(t *testing.T) {
	app := newApp(t, Options{})
	app.HTTP("Calls", "req", http.HandlerFunc(serveCalls), "POST /api/calls/{how}/{id}")
	l, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Serve(ctx, l) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	own := l.Addr().String()
	_, port, err := net.SplitHostPort(own)
	if err != nil {
		t.Fatal(err)
	}
	rebound := "evil.example:" + port
	for _, tt := range []struct {
		name, host, id string
		header         http.Header
		want           int
	}{
		{"forwarded", "app.example", "inv-1", http.Header{"Origin": {"https://app.example"}, "Sec-Fetch-Site": {"cross-site"}}, 200},
		{"forwarded, at an address of this machine", "127.0.0.1:7071", "inv-1", nil, 200},
		{"forwarded, with the handler's own address", own, "inv-1", nil, 200},
		{"a program", own, "", nil, 200},
		{"a page of another site", own, "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"a page of another port", own, "", http.Header{"Origin": {"http://127.0.0.1:3000"}}, 403},
		{"a page whose name leads here", rebound, "", nil, 403},
		{"a page whose name leads here, with the host's header", rebound, "inv-1", nil, 403},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+own+"/api/calls/show/1", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tt.host
		maps.Copy(r.Header, tt.header)
		if tt.id != "" {
			r.Header.Set(headerInvocationID, tt.id)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, resp.StatusCode, tt.want)
		}
	}
}
