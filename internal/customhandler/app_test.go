package customhandler

import (
	"bytes"
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
	"testing"
	"testing/synctest"
	"time"
)

// logBook is a log to read in a test. It is safe for concurrent use.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBook) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// quiet are options without a log.
func quiet() *Options { return &Options{Log: slog.New(slog.DiscardHandler)} }

// post gives an envelope to a handler.
func post(h http.Handler, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("X-Azure-Functions-InvocationId", "inv-1")
	h.ServeHTTP(w, r)
	return w
}

// wantObject fails the test unless the answer is what the host never hangs on: a JSON object, declared as JSON.
func wantObject(t *testing.T, w *httptest.ResponseRecorder) map[string]json.RawMessage {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q, want application/json", got)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(w.Body.Bytes(), &object); err != nil || object == nil {
		t.Fatalf("answer = %q, want a JSON object (%v)", w.Body, err)
	}
	return object
}

const queueEnvelope = `{"Data":{"msg":"\"hello\""},"Metadata":{}}`

// TestEveryAnswerIsAnObject is the rule that keeps the host from hanging, on every way through App.
func TestEveryAnswerIsAnObject(t *testing.T) {
	app := New(&Options{Log: slog.New(slog.DiscardHandler), MaxBody: 1000})
	app.Queue("Succeeds", "msg", func(context.Context, QueueMessage) error { return nil })
	app.Queue("Fails", "msg", func(context.Context, QueueMessage) error { return errors.New("no room") })
	app.Queue("Refuses", "msg", func(context.Context, QueueMessage) error { return &Error{404, "gone", "not there"} })
	app.Queue("Forgets", "msg", func(context.Context, QueueMessage) error { return &Error{} })
	app.Queue("Panics", "msg", func(context.Context, QueueMessage) error { panic("oh") })
	app.Queue("PanicsWithNil", "msg", func(context.Context, QueueMessage) error { panic(nil) })
	app.Queue("Exits", "msg", func(context.Context, QueueMessage) error { runtime.Goexit(); return nil })
	app.Queue("Aborts", "msg", func(context.Context, QueueMessage) error { panic(http.ErrAbortHandler) })
	app.Timer("Ticks", "tick", func(context.Context, Tick) error { return nil })
	app.ServiceBus("Receives", "msg", func(context.Context, ServiceBusMessage) error { return nil })
	app.ServiceBusBatch("ReceivesMany", "msgs", func(context.Context, []ServiceBusMessage) error { return nil })
	app.HTTP("Writes", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "x") }), "/api/writes")
	app.HTTP("WritesNothing", "req", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "/api/nothing")
	app.HTTP("PanicsOverHTTP", "req", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") }), "/api/panics")
	req := func(path string) string {
		return `{"Data":{"req":{"Method":"GET","Url":"http://localhost` + path + `"}}}`
	}

	tests := []struct {
		name, method, path, body string
		want                     int
	}{
		{"readiness", "GET", "/", "", 200},
		{"readiness by another method", "POST", "/", "", 405},
		{"success", "POST", "/Succeeds", queueEnvelope, 200},
		{"success with an empty message", "POST", "/Succeeds", `{"Data":{"msg":"\"\""}}`, 200},
		{"a trigger's error is retried", "POST", "/Fails", queueEnvelope, 500},
		{"a trigger has no statuses", "POST", "/Refuses", queueEnvelope, 500},
		{"an error without a status", "POST", "/Forgets", queueEnvelope, 500},
		{"panic", "POST", "/Panics", queueEnvelope, 500},
		{"panic with nil", "POST", "/PanicsWithNil", queueEnvelope, 500},
		{"goroutine ended", "POST", "/Exits", queueEnvelope, 500},
		{"broken off", "POST", "/Aborts", queueEnvelope, 500},
		{"panic over HTTP counts as a failed invocation", "POST", "/PanicsOverHTTP", req("/api/panics"), 500},
		{"unknown function", "POST", "/Unknown", queueEnvelope, 404},
		{"function's name in another case", "POST", "/succeeds", queueEnvelope, 404},
		{"function by another method", "GET", "/Succeeds", "", 405},
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
		{"service bus", "POST", "/Receives", queueEnvelope, 200},
		{"service bus batch", "POST", "/ReceivesMany", `{"Data":{"msgs":"[1,2]"}}`, 200},
		{"service bus batch that is none", "POST", "/ReceivesMany", `{"Data":{"msgs":"\"hello\""}}`, 400},
		{"HTTP", "POST", "/Writes", req("/api/writes"), 200},
		{"HTTP function that writes nothing", "POST", "/WritesNothing", req("/api/nothing"), 200},
		{"HTTP route of another function", "POST", "/Writes", req("/api/nothing"), 200},
		{"HTTP without a request", "POST", "/Writes", `{"Data":{"req":{}}}`, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			app.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body)))
			if w.Code != tt.want {
				t.Errorf("status = %d, want %d (%s)", w.Code, tt.want, w.Body)
			}
			object := wantObject(t, w)
			if tt.want == 200 {
				return
			}
			var e struct{ Code, Message string }
			if err := json.Unmarshal(object["error"], &e); err != nil || e.Code == "" || e.Message == "" {
				t.Errorf("answer = %s, want an error with code and message", w.Body)
			}
			if tt.want == 405 && w.Header().Get("Allow") == "" {
				t.Error("no Allow header beside 405")
			}
		})
	}
}

// TestTimeout: the answer comes in time, in virtual time, from a function that does not care for its context.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		book := &logBook{}
		app := New(&Options{Log: book.logger(), Timeout: 60 * time.Second})
		var late error
		app.Queue("Stuck", "msg", func(ctx context.Context, _ QueueMessage) error {
			<-release
			late = Emit(ctx, "out", "too late")
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

		start := time.Now()
		if w := post(app, "/Polite", queueEnvelope); w.Code != 500 || !strings.Contains(w.Body.String(), "wait for the gate") {
			t.Errorf("answer of a function that honours its context = %d %s, want 500 with its own words", w.Code, w.Body)
		}
		if got, want := time.Since(start), 57*time.Second; got != want {
			t.Errorf("its context ended after %v, want %v", got, want)
		}

		start = time.Now()
		w := post(app, "/Stuck", queueEnvelope)
		if got, want := time.Since(start), 60*time.Second; got != want {
			t.Errorf("answered for a stuck function after %v, want %v", got, want)
		}
		if w.Code != 500 {
			t.Errorf("status = %d, want 500: the message must come back", w.Code)
		}
		wantObject(t, w)

		w = post(app, "/StuckHTTP", `{"Data":{"req":{"Method":"GET","Url":"http://localhost/api/stuck"}}}`)
		res := wantResponse(t, w)
		if res.StatusCode != 504 || !strings.Contains(res.Body, `"timeout"`) {
			t.Errorf("a stuck HTTP function's answer = %+v, want 504 with the reason", res)
		}
		if got := strings.Count(book.String(), "left behind"); got != 2 {
			t.Errorf("%d log lines about functions left behind, want 2:\n%s", got, book)
		}

		close(release)
		synctest.Wait()
		if !errors.Is(late, ErrNoOutputs) {
			t.Errorf("Emit after the answer = %v, want ErrNoOutputs", late)
		}
	})
}

// wantResponse reads Outputs.res of an answer.
func wantResponse(t *testing.T, w *httptest.ResponseRecorder) response {
	t.Helper()
	object := wantObject(t, w)
	if w.Code != 200 {
		t.Fatalf("status = %d, want 200 with the HTTP status inside: %s", w.Code, w.Body)
	}
	var outputs struct{ Res *response }
	if err := json.Unmarshal(object["Outputs"], &outputs); err != nil || outputs.Res == nil {
		t.Fatalf("answer = %s, want Outputs.res (%v)", w.Body, err)
	}
	return *outputs.Res
}

func TestPanicIsOneLogLine(t *testing.T) {
	book := &logBook{}
	// A text log, to show that the stack does not depend on the handler's quoting.
	app := New(&Options{Log: slog.New(slog.NewTextHandler(book, nil))})
	app.Queue("Panics", "msg", func(context.Context, QueueMessage) error { panic("first\nsecond") })
	post(app, "/Panics", queueEnvelope)
	got := book.String()
	_, stack, _ := strings.Cut(got, "stack=")
	if strings.Count(got, "\n") != 1 || !strings.Contains(stack, "goroutine") || strings.Contains(stack, `\n`) {
		t.Errorf("log = %q, want one line, and a stack without line breaks", got)
	}
	for _, want := range []string{"level=ERROR", "first", "app_test.go", "function=Panics", "invocation=inv-1"} {
		if !strings.Contains(got, want) {
			t.Errorf("log = %q, want %q in it", got, want)
		}
	}
}

// TestLogKeepsSecrets: neither keys nor queries nor bodies of calls get into the log, at any level, however they end.
func TestLogKeepsSecrets(t *testing.T) {
	book := &logBook{}
	app := New(&Options{Log: book.logger()})
	app.HTTP("Call", "req", HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		switch Query(r, "end") {
		case "panic":
			panic("oh")
		case "error":
			return errors.New("no room")
		}
		return nil
	}), "/api/call")
	app.Queue("Work", "msg", func(context.Context, QueueMessage) error { return errors.New("no room") })
	server := httptest.NewServer(app)
	defer server.Close()
	for _, end := range []string{"", "panic", "error"} {
		for _, path := range []string{"/api/call", "/api/nowhere"} {
			r, _ := http.NewRequest("POST", server.URL+path+"?code=s3cret&end="+end, strings.NewReader("s3cret"))
			r.Header.Set("x-functions-key", "s3cret")
			resp, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		post(app, "/Call", `{"Data":{"req":{"Method":"GET","Url":"http://h/api/call?code=s3cret&end=`+end+`","Headers":{"x-functions-key":["s3cret"]}}}}`)
	}
	post(app, "/Work", `{"Data":{"msg":"s3cret"},"Metadata":{"s3cret":1}}`)
	post(app, "/Work", `{"Data":"s3cret"}`)
	post(app, "/Work", `s3cret`)
	if book.String() == "" {
		t.Fatal("nothing was logged")
	}
	if strings.Contains(book.String(), "s3cret") {
		t.Errorf("log holds a secret:\n%s", book)
	}
}

func TestRegisteringMistakesPanic(t *testing.T) {
	queue := func(context.Context, QueueMessage) error { return nil }
	tests := []struct {
		name string
		do   func(*App)
	}{
		{"function twice", func(a *App) { a.Queue("A", "msg", queue); a.Queue("A", "msg", queue) }},
		{"no name", func(a *App) { a.Queue("", "msg", queue) }},
		{"no binding", func(a *App) { a.Queue("A", "", queue) }},
		{"a path for a name", func(a *App) { a.Queue("api/A", "msg", queue) }},
		{"HTTP without a route", func(a *App) { a.HTTP("A", "req", http.NotFoundHandler()) }},
		{"HTTP outside of the prefix", func(a *App) { a.HTTP("A", "req", http.NotFoundHandler(), "GET /A") }},
		{"HTTP with two bindings", func(a *App) {
			a.HTTP("A", "req", http.NotFoundHandler(), "GET /api/a")
			a.HTTP("A", "r", http.NotFoundHandler(), "GET /api/b")
		}},
		{"HTTP named like a queue function", func(a *App) {
			a.Queue("A", "req", queue)
			a.HTTP("A", "req", http.NotFoundHandler(), "GET /api/a")
		}},
		{"a route of two functions", func(a *App) {
			a.HTTP("A", "req", http.NotFoundHandler(), "GET /api/a")
			a.HTTP("B", "req", http.NotFoundHandler(), "GET /api/a")
		}},
		{"HTTPTimeout over the front end's", func(*App) { New(&Options{HTTPTimeout: 230 * time.Second}) }},
		{"negative timeout", func(*App) { New(&Options{Timeout: -1}) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			tt.do(New(nil))
		})
	}
}

func TestTimeoutDefaults(t *testing.T) {
	tests := []struct {
		name       string
		opt        *Options
		want, http time.Duration
	}{
		{"none", nil, 270 * time.Second, 220 * time.Second},
		{"long invocations", &Options{Timeout: time.Hour}, time.Hour, 220 * time.Second},
		{"short invocations", &Options{Timeout: time.Minute}, time.Minute, time.Minute},
		{"both", &Options{Timeout: time.Minute, HTTPTimeout: 2 * time.Minute}, time.Minute, 2 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if a := New(tt.opt); a.timeout != tt.want || a.httpTimeout != tt.http {
				t.Errorf("timeouts = %v, %v, want %v, %v", a.timeout, a.httpTimeout, tt.want, tt.http)
			}
		})
	}
}
