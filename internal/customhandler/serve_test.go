package customhandler

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
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
		t.Errorf("listening on %v, want 127.0.0.1 and nothing else", address)
	}
	// The start must fail, and say where, when another process has the port.
	if _, err := Listen(address.Port); err == nil || !strings.Contains(err.Error(), address.String()) {
		t.Errorf("Listen on a used port = %v, want an error with the address", err)
	}
}

func TestServe(t *testing.T) {
	start := func(t *testing.T, app *App) (base string, l net.Listener, stop context.CancelFunc, ended chan error) {
		l, err := Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended = make(chan error, 1)
		go func() { ended <- app.Serve(ctx, l) }()
		return "http://" + l.Addr().String(), l, stop, ended
	}

	t.Run("running invocations finish", func(t *testing.T) {
		app := New(&Options{Log: quiet().Log, Drain: time.Hour})
		started, release := make(chan struct{}), make(chan struct{})
		app.Queue("Work", "msg", func(ctx context.Context, _ QueueMessage) error {
			close(started)
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		base, _, stop, ended := start(t, app)
		client := NewClient(base, nil)
		if err := client.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, 1)
		go func() {
			_, err := client.Invoke(t.Context(), "Work", Trigger{Function: "Work", Binding: "msg"}.Queue(QueueMessage{}))
			answered <- err
		}()
		<-started
		stop()
		waitRefused(base) // no new calls
		close(release)
		if err := <-answered; err != nil {
			t.Errorf("invocation in flight at the stop: %v, want it finished", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v, want nil after a stop", err)
		}
	})

	t.Run("those that do not are cut off", func(t *testing.T) {
		book := &logBook{}
		app := New(&Options{Log: book.logger(), Drain: time.Nanosecond})
		started, cut := make(chan struct{}), make(chan struct{})
		app.Queue("Work", "msg", func(ctx context.Context, _ QueueMessage) error {
			close(started)
			<-ctx.Done()
			close(cut)
			return ctx.Err()
		})
		base, _, stop, ended := start(t, app)
		client := NewClient(base, nil)
		answered := make(chan error, 1)
		go func() {
			_, err := client.Invoke(t.Context(), "Work", Trigger{Function: "Work", Binding: "msg"}.Queue(QueueMessage{}))
			answered <- err
		}()
		<-started
		stop()
		<-cut // its context ends
		if err := <-answered; err == nil {
			t.Error("an invocation that was cut off has succeeded")
		}
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v, want nil after a stop", err)
		}
		if !strings.Contains(book.String(), "cut off") {
			t.Errorf("log = %q, want to read that invocations were cut off", book)
		}
	})

	t.Run("an end nobody asked for is an error", func(t *testing.T) {
		_, l, stop, ended := start(t, New(quiet()))
		defer stop()
		l.Close()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
			t.Errorf("Serve on a closed listener = %v, want an error with its address", err)
		}
	})
}

// waitRefused returns when nothing listens at base any more.
func waitRefused(base string) {
	for {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			return
		}
		conn.Close()
	}
}

// TestReadinessIsSilent: the host asks each 25 ms at the start, and now and then for ever.
func TestReadinessIsSilent(t *testing.T) {
	book := &logBook{}
	app := New(&Options{Log: book.logger()})
	w := httptest.NewRecorder()
	app.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != 200 || w.Body.String() != "{}" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("GET / = %d %q %v, want 200 {}", w.Code, w.Body, w.Header())
	}
	if book.String() != "" {
		t.Errorf("log = %q, want none", book)
	}
}

func TestCanonicalPath(t *testing.T) {
	rt := newRouter()
	for _, pattern := range []string{"GET /api/batches/{batch}", "GET /api/batches/status", "GET /api/console/{path...}", "/api/files/", "/api/only/{$}"} {
		rt.handle(pattern, http.NotFoundHandler())
	}
	tests := []struct{ path, want string }{
		{"/API/Batches/B1", "/api/batches/B1"},
		{"/api/batches/B1/", "/api/batches/B1"},
		{"/api/batches/STATUS", "/api/batches/status"}, // the more specific one
		{"/api/batches/a%2FB", "/api/batches/a%2FB"},
		{"/API/Console/Css/Site.css", "/api/console/Css/Site.css"},
		{"/api/CONSOLE", "/api/console/"},
		{"/api/CONSOLE/", "/api/console/"},
		{"/api/Files/A/b/", "/api/files/A/b/"},
		{"/api/ONLY", "/api/only/"},
		{"/api/only/this", ""},
		{"/api/batches", ""},
		{"/api/batches/", ""},
		{"/api/batches//", ""},
		{"/api/batches/b/c", ""},
		{"/", ""},
		{"", ""},
	}
	for _, tt := range tests {
		if got, ok := rt.canonical(tt.path); got != tt.want || ok != (tt.want != "") {
			t.Errorf("canonical(%q) = %q, %v, want %q", tt.path, got, ok, tt.want)
		}
	}
}
