package customhandler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestEveryAnswerIsAnObject proves the rule that keeps the host from hanging,
// for every way through App.
func TestEveryAnswerIsAnObject(t *testing.T) {
	book := &logBook{}
	app := newApp(t, Options{Log: book.logger(), MaxBody: 1000})
	queue := func(name string, f func() error) {
		app.Queue(name, "msg", func(context.Context, QueueMessage) error { return f() })
	}
	queue("Succeeds", func() error { return nil })
	queue("Fails", func() error { return errors.New("no room") })
	queue("FailsWithStatus", func() error { return &Error{404, "gone", "not there"} })
	queue("FailsWithNothing", func() error { return &Error{} })
	queue("Panics", func() error { panic("oh") })
	queue("PanicsWithNil", func() error { panic(nil) })
	queue("Exits", func() error { runtime.Goexit(); return nil })
	queue("Aborts", func() error { panic(http.ErrAbortHandler) })
	app.Timer("Ticks", "tick", func(context.Context, Tick) error { return nil })
	app.HTTP("PanicsOverHTTP", "req", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") }), "/api/panics")

	tests := []struct {
		name, method, path, body string
		want                     int
	}{
		{"readiness", "GET", "/", "", 200},
		{"readiness by another method", "POST", "/", "", 405},
		{"success", "POST", "/Succeeds", queueEnvelope, 200},
		{"success with an empty message", "POST", "/Succeeds", `{"Data":{"msg":"\"\""}}`, 200},
		{"success without metadata", "POST", "/Succeeds", `{"Data":{"msg":"\"a\""},"More":[1]}`, 200},
		{"error", "POST", "/Fails", queueEnvelope, 500},
		{"error with a status", "POST", "/FailsWithStatus", queueEnvelope, 500},
		{"error without a status", "POST", "/FailsWithNothing", queueEnvelope, 500},
		{"panic", "POST", "/Panics", queueEnvelope, 500},
		{"panic with nil", "POST", "/PanicsWithNil", queueEnvelope, 500},
		{"goroutine ended", "POST", "/Exits", queueEnvelope, 500},
		{"answer broken off", "POST", "/Aborts", queueEnvelope, 500},
		{"panic over HTTP, whose caller reads the answer", "POST", "/PanicsOverHTTP", httpEnvelope("/api/panics"), 200},
		{"unknown function", "POST", "/Unknown", queueEnvelope, 404},
		{"function name in another case", "POST", "/succeeds", queueEnvelope, 404},
		{"function by another method", "GET", "/Succeeds", "", 404},
		{"unknown route", "GET", "/api/unknown", "", 404},
		{"route outside of the prefix", "GET", "/other/thing", "", 404},
		{"no body", "POST", "/Succeeds", "", 400},
		{"null", "POST", "/Succeeds", "null", 400},
		{"not JSON", "POST", "/Succeeds", "hello", 400},
		{"array", "POST", "/Succeeds", "[]", 400},
		{"data of another type", "POST", "/Succeeds", `{"Data":[]}`, 400},
		{"data of another binding", "POST", "/Succeeds", `{"Data":{"other":"x"}}`, 400},
		{"body too large", "POST", "/Succeeds", `{"Data":{"msg":"` + strings.Repeat("x", 3*1000+1<<20) + `"}}`, 413},
		{"timer", "POST", "/Ticks", `{"Data":{"tick":{}}}`, 200},
		{"timer without data", "POST", "/Ticks", `{}`, 200},
		{"HTTP without a request", "POST", "/PanicsOverHTTP", `{"Data":{"req":{}}}`, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := book.String()
			w := httptest.NewRecorder()
			r := httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body))
			if function := tt.path[1:]; tt.method == "POST" && function != "" && !strings.Contains(function, "/") {
				var err error
				if r, err = NewEnvelopeRequest(t.Context(), "http://127.0.0.1", function, []byte(tt.body)); err != nil {
					t.Fatal(err)
				}
			}
			app.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("status = %d, want %d (%s)", w.Code, tt.want, w.Body)
			}
			object := wantObject(t, w)
			if tt.path == "/" && book.String() != before { // the host checks every 25 ms
				t.Error("the readiness check was logged")
			}
			if tt.want == 200 {
				return
			}
			var e struct{ Code, Message string }
			if err := json.Unmarshal(object["error"], &e); err != nil || e.Code == "" || e.Message == "" {
				t.Errorf("answer = %s, want an error with code and message", w.Body)
			}
			if tt.want == 405 && w.Header().Get("Allow") == "" {
				t.Error("405 without an Allow header")
			}
		})
	}
}

// TestTimeout proves in virtual time that the answer comes in time, even from a
// function that ignores its context.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		book := &logBook{}
		app := newApp(t, Options{Log: book.logger(), Timeout: 60 * time.Second})
		app.Queue("Stuck", "msg", func(ctx context.Context, _ QueueMessage) error {
			<-release
			return nil
		})
		app.HTTP("StuckHTTP", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "half")
			<-release
			_, _ = io.WriteString(w, " an answer")
		}), "/api/stuck")
		app.Queue("Polite", "msg", func(ctx context.Context, _ QueueMessage) error {
			<-ctx.Done()
			return fmt.Errorf("wait for the gate: %w", ctx.Err())
		})

		timed := func(path, body string, want time.Duration) *httptest.ResponseRecorder {
			start := time.Now()
			w := post(app, path, body)
			if got := time.Since(start); got != want {
				t.Errorf("%s: answered after %v, want %v", path, got, want)
			}
			return w
		}
		if w := timed("/Polite", queueEnvelope, 57*time.Second); w.Code != 500 || !strings.Contains(w.Body.String(), "wait for the gate") {
			t.Errorf("answer of a function that honors its context = %d %s, want 500 with its error", w.Code, w.Body)
		}
		if w := timed("/Stuck", queueEnvelope, 60*time.Second); w.Code != 500 || wantObject(t, w) == nil {
			t.Errorf("status = %d, want 500, so that the host delivers the message again", w.Code)
		}
		w := timed("/StuckHTTP", httpEnvelope("/api/stuck"), 60*time.Second)
		if res := string(wantObject(t, w)["Outputs"]); w.Code != 200 || !strings.Contains(res, `"statusCode":504`) || !strings.Contains(res, `\"timeout\"`) {
			t.Errorf("answer of a stuck HTTP function = %d %s, want 504 in it with the reason", w.Code, res)
		}
		if got := strings.Count(book.String(), "abandoned"); got != 2 {
			t.Errorf("%d log records about abandoned functions, want 2:\n%s", got, book)
		}
		close(release)
	})
}

func TestParallelInvocations(t *testing.T) {
	const n = 50
	app := newApp(t, Options{})
	var running atomic.Int32
	all := make(chan struct{})
	app.Queue("Meet", "msg", func(ctx context.Context, m QueueMessage) error {
		if running.Add(1) == n {
			close(all)
		}
		<-all // only when all are in flight at once
		if got := invocationFrom(ctx).id; got != m.Text {
			return fmt.Errorf("invocation %s received the message of %s", got, m.Text)
		}
		return nil
	})
	_, client := serve(t, app)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			id := NewInvocationID()
			e := Trigger{Function: "Meet", Binding: "msg"}.Queue(QueueMessage{Text: id})
			e.ID = id
			if _, err := client.Invoke(t.Context(), "Meet", e); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestPanicIsOneLogLine(t *testing.T) {
	book := &logBook{}
	// A text handler, because it does not quote the stack.
	app := newApp(t, Options{Log: slog.New(slog.NewTextHandler(book, nil))})
	app.Queue("Panics", "msg", func(context.Context, QueueMessage) error { panic("first\nsecond") })
	post(app, "/Panics", queueEnvelope)
	got := book.String()
	_, stack, _ := strings.Cut(got, "stack=")
	if strings.Count(got, "\n") != 1 || !strings.Contains(stack, "goroutine") || strings.Contains(stack, `\n`) {
		t.Errorf("log = %q, want one line, and a stack without line breaks", got)
	}
	for _, want := range []string{"level=ERROR", "first", "app_test.go", "function=Panics", "invocation=inv-1"} {
		if !strings.Contains(got, want) {
			t.Errorf("log = %q, want it to contain %q", got, want)
		}
	}
}

// TestLogKeepsSecrets proves that keys, queries and bodies of calls are in the
// log at no level, however the calls end.
func TestLogKeepsSecrets(t *testing.T) {
	book := &logBook{}
	app := newApp(t, Options{Log: book.logger()})
	app.HTTP("Call", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch Query(r, "end") {
		case "panic":
			panic("oh")
		case "error":
			WriteError(w, r, errors.New("no room"))
		}
	}), "/api/call")
	app.Queue("Work", "msg", func(context.Context, QueueMessage) error { return errors.New("no room") })
	for _, end := range []string{"", "panic", "error"} {
		for _, path := range []string{"/api/call", "/api/nowhere"} {
			r := httptest.NewRequest("POST", path+"?code=s3cret&end="+end, strings.NewReader("s3cret"))
			r.Header.Set("x-functions-key", "s3cret")
			app.ServeHTTP(httptest.NewRecorder(), r)
		}
		post(app, "/Call", `{"Data":{"req":{"Method":"GET","Url":"http://h/api/call?code=s3cret&end=`+end+`","Headers":{"x-functions-key":["s3cret"]}}}}`)
	}
	for _, body := range []string{`{"Data":{"msg":"s3cret"},"Metadata":{"s3cret":1}}`, `{"Data":"s3cret"}`, `s3cret`} {
		post(app, "/Work", body)
	}
	if got := book.String(); got == "" || strings.Contains(got, "s3cret") {
		t.Errorf("log is empty or holds a secret:\n%s", got)
	}
}

func TestRegisteringMistakesPanic(t *testing.T) {
	queue := func(context.Context, QueueMessage) error { return nil }
	nothing := http.NotFoundHandler()
	for name, register := range map[string]func(*App){
		"function twice":                         func(a *App) { a.Queue("A", "msg", queue); a.Queue("A", "msg", queue) },
		"no name":                                func(a *App) { a.Queue("", "msg", queue) },
		"no binding":                             func(a *App) { a.Queue("A", "", queue) },
		"a path as the name":                     func(a *App) { a.Queue("api/A", "msg", queue) },
		"HTTP without a route":                   func(a *App) { a.HTTP("A", "req", nothing) },
		"HTTP outside of the prefix":             func(a *App) { a.HTTP("A", "req", nothing, "GET /A") },
		"HTTP with two bindings":                 func(a *App) { a.HTTP("A", "req", nothing, "GET /api/a"); a.HTTP("A", "r", nothing, "GET /api/b") },
		"HTTP with the name of a queue function": func(a *App) { a.Queue("A", "req", queue); a.HTTP("A", "req", nothing, "GET /api/a") },
		"a route of two functions":               func(a *App) { a.HTTP("A", "req", nothing, "GET /api/a"); a.HTTP("B", "req", nothing, "GET /api/a") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			register(newApp(t, Options{}))
		})
	}
}

func TestOptions(t *testing.T) {
	tests := []struct {
		name       string
		opt        *Options
		want, http time.Duration // 0: an error
	}{
		{"none", nil, 270 * time.Second, 220 * time.Second},
		{"long invocations", &Options{Timeout: time.Hour}, time.Hour, 220 * time.Second},
		{"short invocations", &Options{Timeout: time.Minute}, time.Minute, time.Minute},
		{"both", &Options{Timeout: time.Minute, HTTPTimeout: 2 * time.Minute}, time.Minute, 2 * time.Minute},
		{"HTTPTimeout of the front end", &Options{HTTPTimeout: 230 * time.Second}, 0, 0},
		{"negative", &Options{Drain: -1}, 0, 0},
	}
	for _, tt := range tests {
		a, err := New(tt.opt)
		if (err != nil) != (tt.want == 0) {
			t.Errorf("%s: New returned the error %v", tt.name, err)
		} else if err == nil && (a.opt.Timeout != tt.want || a.opt.HTTPTimeout != tt.http) {
			t.Errorf("%s: timeouts = %v, %v, want %v, %v", tt.name, a.opt.Timeout, a.opt.HTTPTimeout, tt.want, tt.http)
		}
	}
}
