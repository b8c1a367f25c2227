package customhandler

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestReadJSON(t *testing.T) {
	type order struct {
		ID  string `json:"id"`
		Qty int    `json:"qty"`
	}
	const badJSON = "400 bad_json: The body is not the expected JSON: "
	tests := []struct {
		name, contentType, body string
		want                    string // the id, or the beginning of the error
	}{
		{"valid", "Application/JSON; charset=utf-8", `{"id":"a","qty":3} `, "a"},
		{"charset in quotes", "application/json;charset=\"UTF-8\"", `{"id":"a","qty":3}`, "a"},
		{"surrogates", "", `{"id":"\ud83d\ude00","qty":3}`, "😀"},
		{"an escaped backslash", "", `{"id":"\\ud83d","qty":3}`, `\ud83d`},
		{"both", "", `{"id":"\\\ud83d\uDE00","qty":3}`, `\😀`},
		{"escapes that are not surrogates", "", `{"id":"\u00fc\ufffd\uffff","qty":3}`, "ü\ufffd\uffff"},
		{"U+FFFD in UTF-8", "", "{\"id\":\"\ufffd\",\"qty\":3}", "\ufffd"},
		{"no body", "", ``, "411 length_required"},
		{"another type", "text/plain", `{"id":"a"}`, "415 unsupported_media_type"},
		{"no type", " ", `{"id":"a"}`, "415 unsupported_media_type"},
		{"Latin-1", "application/json;charset=latin1", `{"id":"a"}`, `415 unsupported_media_type: The charset of the body is "latin1" instead of utf-8.`},
		{"too large", "", `{"id":"` + strings.Repeat("x", 100) + `"}`, "413 body_too_large"},
		{"too large after the value", "", `{"id":"a"}` + strings.Repeat(" ", 100), "413 body_too_large"},
		{"not JSON", "", `{"id":a}`, badJSON + "invalid character 'a' looking for beginning of value (near byte 7)."},
		{"text instead of a number", "", `{"qty":"3"}`, badJSON + `field "qty" has the wrong type: string instead of number (near byte 10).`},
		{"no such number", "", `{"qty":1e400}`, badJSON + `field "qty" has the number 1e400, which is out of range (near byte 12).`},
		{"long number", "", `{"qty":` + strings.Repeat("9", 50) + `}`, badJSON + `field "qty" has the number ` + strings.Repeat("9", 40) + `, which`},
		{"array instead of an object", "", `[]`, badJSON + `it has the wrong type: array instead of object (near byte 1).`},
		{"misspelt name", "", `{"quantity":3}`, badJSON + `unknown field "quantity"`},
		{"name in another case", "", `{"ID":"a","qty":3}`, badJSON + `unknown field "ID" (names are case-sensitive).`},
		{"duplicate name of no field", "", `{"id":"a","x":1,"x":2}`, badJSON + `unknown field "x"`},
		{"duplicate name", "", `{"id":"b","id":"a","qty":3}`, badJSON + `duplicate field "id".`},
		{"null member", "", `{"id":null,"qty":3}`, badJSON + `field "id" is null; give it a value or omit it.`},
		{"null", "", ` null `, badJSON + "it is null instead of an object."},
		{"two values", "", `{"id":"a"} {}`, badJSON + "text follows the JSON value."},
		{"cut off", "", `{"id":`, badJSON + "it is incomplete."},
		{"blank", "", " ", badJSON + "it is blank."},
		{"not UTF-8", "", "{\"id\":\"a\xff\"}", badJSON + "it is not valid UTF-8 at byte 8."},
		{"a surrogate in UTF-8", "", "{\"id\":\"\xed\xa0\x80\"}", badJSON + "it is not valid UTF-8 at byte 7."},
		{"half a pair", "", `{"id":"\ud83d"}`, badJSON + `the surrogate \ud83d at byte 7 has no other half.`},
		{"the first half twice", "", `{"id":"\ud83d\ud83d\ude00"}`, badJSON + `the surrogate \ud83d at byte 7`},
		{"half a pair before UTF-8", "", `{"id":"\ud83d😀"}`, badJSON + `the surrogate \ud83d at byte 7`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", strings.NewReader(tt.body))
			r.Header.Set("Content-Type", tt.contentType)
			if tt.contentType == "" {
				r.Header.Set("Content-Type", "application/json")
			}
			var got order
			err := ReadJSON(r, 60, &got)
			if err == nil {
				if got != (order{tt.want, 3}) {
					t.Errorf("ReadJSON = %+v, want %q", got, tt.want)
				}
				return
			}
			e := explain(err)
			if text := fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message); !strings.HasPrefix(text, tt.want) {
				t.Errorf("ReadJSON = %q, want %q", text, tt.want)
			}
		})
	}
}

func TestHasBody(t *testing.T) {
	r := httptest.NewRequest("POST", "/", nil)
	without := HasBody(r)
	r.Header.Set("Content-Type", "Application/JSON; charset=utf-8")
	if lost := HasBody(r); without || !lost {
		t.Errorf("HasBody without a body = %t, want false; without one of type JSON = %t, want true", without, lost)
	}
}

func TestQuery(t *testing.T) {
	r := httptest.NewRequest("GET", "/?Timeout=30s&timeout=&a=1&a=2", nil)
	for name, want := range map[string]string{"Timeout": "30s", "timeout": "", "A": "1", "none": ""} {
		if got := Query(r, name); got != want {
			t.Errorf("Query(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestInvocationID(t *testing.T) {
	made := regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	for _, tt := range []struct {
		lines []string
		want  string // "": a new one
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"host"}, "host"},
		{[]string{"4B6A1c2d-7d0f_4f3c.9"}, "4B6A1c2d-7d0f_4f3c.9"},
		{[]string{"client", "host"}, "host"},
		{[]string{"client,proxy,host"}, "host"},
		{[]string{"client", "client, host "}, "host"},
		{[]string{"client,"}, ""},
		{[]string{strings.Repeat("x", 128)}, strings.Repeat("x", 128)},
		{[]string{strings.Repeat("x", 129)}, ""},
		{[]string{"a b"}, ""},
		{[]string{"a\r\nSet-Cookie: b=1"}, ""},
		{[]string{`"><script>`}, ""},
		{[]string{"ü"}, ""},
	} {
		h := http.Header{headerInvocationID: tt.lines}
		got := invocationID(h)
		if tt.want != "" && got != tt.want || tt.want == "" && (!made.MatchString(got) || invocationID(h) == got) {
			t.Errorf("invocationID of %.80q = %q, want %q", tt.lines, got, cmp.Or(tt.want, "a new one each time"))
		}
	}
}

// TestReadFreeJSON: a body that a function reads itself is strict, too, at each
// depth.
func TestReadFreeJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + strings.Repeat(`]}`, n/2) }
	for body, want := range map[string]string{
		`{"a":{"b":1,"B ":2},"b":[null,{"a":1},{"a":2}]}`: "",
		`[{"a":{"b":1,"c":2,"b":3}}]`:                     `duplicate field "b"`,
		`{"a":{"skill":1,"ſ\u212aILL":3}}`:                `duplicate field "ſ`, // and the Kelvin sign
		deep(maxDepth):                                    "",
		deep(maxDepth + 2):                                "more than 32 deep",
		strings.Repeat("[", 1e5):                          "exceeded max depth",
		`{"a":1}{`:                                        "text follows the JSON value",
		`{"a":1}]`:                                        "invalid character",
		"\ufeff{}":                                        "invalid character",
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		var text json.RawMessage
		err := ReadJSON(r, 1<<20, &text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), "bad_json") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: %v, want an error with %q", body, err, want)
		}
	}
}

// TestRequestID proves that every answer has the invocation's id, which is also
// in each line that the call left in the log, and the headers of all answers.
func TestRequestID(t *testing.T) {
	book, release := &logBook{}, make(chan struct{})
	defer close(release)
	app := newApp(t, Options{Log: book.logger(), MaxBody: 10, HTTPTimeout: 50 * time.Millisecond})
	app.HTTP("Calls", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("how") == "stuck" {
			<-release
		}
		serveCalls(w, r)
	}), "POST /api/calls/{how}/{id}", "GET /api/calls/{how}/{id}")
	app.Queue("Work", "msg", func(_ context.Context, m QueueMessage) error { return errors.New(m.Text) })
	server, client := serve(t, app)
	for _, tt := range []struct {
		what, method, path, body string
		status                   int
		logged                   bool
	}{
		{"readiness", "GET", "/", "", 200, false},
		{"readiness by another method", "DELETE", "/", "", 405, false},
		{"unknown function", "POST", "/Nothing", "{}", 404, false},
		{"function by another method", "GET", "/Work", "", 404, false},
		{"failed invocation", "POST", "/Work", queueEnvelope, 500, true},
		{"bad envelope", "POST", "/Work", "{", 400, true},
		{"success", "GET", "/api/calls/nothing/1", "", 200, true},
		{"HEAD", "HEAD", "/api/calls/nothing/1", "", 200, true},
		{"no content", "GET", "/api/calls/nocontent/1", "", 204, true},
		{"unknown route", "GET", "/api/nothing", "", 404, false},
		{"unclean path", "GET", "/api//calls", "", 404, false},
		{"bad query", "GET", "/api/calls/show/1?a=%zz", "", 400, false},
		{"wrong method", "PATCH", "/api/calls/show/1", "", 405, false},
		{"body too large", "POST", "/api/calls/show/1", "eleven byte", 413, false},
		{"error for the caller", "GET", "/api/calls/conflict/1", "", 409, true},
		{"error", "GET", "/api/calls/error/1", "", 500, true},
		{"error of a stop", "GET", "/api/calls/canceled/1", "", 503, true},
		{"panic", "GET", "/api/calls/panic/1", "", 500, true},
		{"abandoned function", "GET", "/api/calls/stuck/1", "", 504, true},
	} {
		for _, id := range []string{"", NewInvocationID()} {
			r, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if tt.method == "POST" && strings.Count(tt.path, "/") == 1 {
				r.ContentLength, r.Header["Content-Type"] = -1, []string{envelopeType}
			}
			r.Header.Set(headerRequestID, "of the client") // has no effect
			if id != "" {
				r.Header[headerInvocationID] = []string{"client", id}
			}
			before := len(book.String())
			resp, err := server.Client().Do(r)
			if err != nil {
				t.Fatalf("%s: %v", tt.what, err)
			}
			resp.Body.Close()
			got := resp.Header.Values(headerRequestID)
			if resp.StatusCode != tt.status || len(got) != 1 || id != "" && got[0] != id || !isID(got[0]) {
				t.Errorf("%s with the invocation id %q: status %d and request id %q, want %d and that id", tt.what, id, resp.StatusCode, got, tt.status)
				continue
			}
			expectStanding(t, tt.what, resp.Header)
			lines := book.String()[before:]
			if strings.Count(lines, `"invocation":"`+got[0]+`"`) != strings.Count(lines, "\n") || (lines != "") != tt.logged {
				t.Errorf("%s: log = %s, want request id %s in each line", tt.what, lines, got[0])
			}
			if retry := resp.Header.Get("Retry-After"); tt.status >= 400 && resp.Header.Get("Cache-Control") != "no-store" || (tt.status == 503) != (retry != "") {
				t.Errorf("%s: headers %v, want an error that no cache keeps, and Retry-After with 503 only", tt.what, resp.Header)
			}
		}
	}

	// In an envelope the id is also in the answer to the client.
	for _, path := range []string{"/api/calls/show/1", "/api/calls/conflict/1", "/api/calls/binary/1", "/api/calls/stuck/1", "/api/nothing"} {
		e, err := Trigger{Function: "Calls", Binding: "req"}.HTTP(httptest.NewRequest("GET", path, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Invoke(t.Context(), "Calls", e)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		got, err := answer.HTTP("res")
		if err != nil || got.Header.Get(headerRequestID) != e.ID {
			t.Errorf("%s in an envelope: headers %v (%v), want the request id %s", path, got.Header, err, e.ID)
		}
		expectStanding(t, path+" in an envelope", got.Header)
	}
}

func TestLogHandler(t *testing.T) {
	ctx := withInvocation(t.Context(), &invocation{id: "inv-1", function: "Work"})
	tests := []struct {
		name string
		log  func(*slog.Logger)
		want string
	}{
		{"outside of an invocation", func(l *slog.Logger) { l.Info("m", "a", 1) }, "a=1"},
		{"inside", func(l *slog.Logger) { l.InfoContext(ctx, "m", "a", 1) }, "a=1 invocation=inv-1 function=Work"},
		{"with attributes", func(l *slog.Logger) { l.With("a", 1).InfoContext(ctx, "m") }, "a=1 invocation=inv-1 function=Work"},
		{"beside groups, not in them", func(l *slog.Logger) {
			l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").InfoContext(ctx, "m", "c", 3)
		}, "a=1 invocation=inv-1 function=Work g.b=2 g.h.c=3"},
		{"group outside of an invocation", func(l *slog.Logger) { l.WithGroup("g").Info("m", "c", 3) }, "g.c=3"},
		{"empty group", func(l *slog.Logger) { l.WithGroup("").InfoContext(ctx, "m") }, "invocation=inv-1 function=Work"},
		{"level of the next handler", func(l *slog.Logger) { l.DebugContext(ctx, "m") }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			h := NewLogHandler(NewLogHandler(slog.NewTextHandler(&b, nil))) // the second call has no effect
			tt.log(slog.New(h))
			_, got, _ := strings.Cut(strings.TrimSpace(b.String()), "msg=m ")
			if got != tt.want {
				t.Errorf("log = %q, want %q", got, tt.want)
			}
		})
	}
}

// http.ServeMux would redirect a path with empty or dot segments, and not in
// JSON. The router answers 404 instead.
func TestUncleanPaths(t *testing.T) {
	app := newApp(t, Options{})
	app.HTTP("F", "req", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "POST /api/things/{thing}/next")
	for path, want := range map[string]int{
		"/api/things/a/next": 200, "/api/things/.a/next": 200,
		"/api/things/../next": 404, "/api//things/a/next": 404, "/api/./things/a/next": 404, "/api/things//next": 404,
	} {
		w := httptest.NewRecorder()
		app.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://h"+path, nil))
		if w.Code != want || want != 200 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %d %s, want %d in JSON", path, w.Code, w.Body, want)
		}
	}
}

func TestCanonicalPath(t *testing.T) {
	rt := newRouter()
	for _, pattern := range []string{"GET /api/batches/status", "GET /api/batches/{batch}", "GET /api/console/{path...}", "/api/files/", "/api/only/{$}"} {
		rt.handle(pattern, http.NotFoundHandler())
	}
	for path, want := range map[string]string{
		"/API/Batches/B1":           "/api/batches/B1",
		"/api/batches/B1/":          "/api/batches/B1",
		"/api/batches/STATUS":       "/api/batches/status", // the more specific one
		"/api/batches/a%2FB":        "/api/batches/a%2FB",
		"/API/Console/Css/Site.css": "/api/console/Css/Site.css",
		"/api/CONSOLE":              "/api/console/",
		"/api/Files/A/b/":           "/api/files/A/b/",
		"/api/ONLY":                 "/api/only/",
		"/api/only/this":            "",
		"/api/batches":              "",
		"/api/batches/":             "",
		"/api/batches/b/c":          "",
	} {
		if got, ok := rt.canonical(path); got != want || ok != (want != "") {
			t.Errorf("canonical(%q) = %q, %v, want %q", path, got, ok, want)
		}
	}
}
