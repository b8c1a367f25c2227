package app

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kennel/internal/apptest"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/principal"
)

// guarded is an app with a route of each method, which counts its calls, and
// with the console.
type guarded struct {
	*customhandler.App
	log    bytes.Buffer
	served int
}

func newGuarded(t *testing.T, cfg config.Config) *guarded {
	t.Helper()
	g := &guarded{}
	var err error
	if g.App, err = customhandler.New(nil); err != nil {
		t.Fatal(err)
	}
	var api []edge.Route
	for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
		api = append(api, edge.Route{Function: "Any", Pattern: method + " /api/any/{name}", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			g.served++
			io.WriteString(w, "{}")
		})})
	}
	edge.ServeRoutes(g.App, api)
	edge.ServeRoutes(g.App, edge.NewPeople(cfg, slog.New(slog.NewJSONHandler(&g.log, nil))).Routes(api))
	return g
}

// TestOnlyItsOwnPagesChange: a change is made only if it may come from a page of
// the console, or from a program on purpose, whatever its method. With sign-in
// the same rules hold, because a browser sends its cookie with each request.
func TestOnlyItsOwnPagesChange(t *testing.T) {
	const here = "127.0.0.1:7071"
	for _, tt := range []struct {
		name         string
		host         string
		header       http.Header
		read, change int // the statuses
	}{
		{"a program", here, nil, 200, 200},
		{"its own page", here, http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://" + here}}, 200, 200},
		{"its own page, in an old browser", here, http.Header{"Origin": {"http://" + here}}, 200, 200},
		{"its own page, by name", "localhost:7071", http.Header{"Origin": {"http://localhost:7071"}}, 200, 200},
		{"a person, without a page", here, http.Header{"Sec-Fetch-Site": {"none"}}, 200, 200},
		{"another site", here, http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://mallory.example"}}, 200, 403},
		{"another site, which names our origin", here, http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"http://" + here}}, 200, 403},
		{"another port of this machine", here, http.Header{"Sec-Fetch-Site": {"same-site"}, "Origin": {"http://127.0.0.1:7072"}}, 200, 403},
		{"another port, in an old browser", here, http.Header{"Origin": {"http://127.0.0.1:7072"}}, 200, 403},
		{"another name of this machine", here, http.Header{"Origin": {"http://localhost:7071"}}, 200, 403},
		{"a page without an origin", here, http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"null"}}, 200, 403},
		{"a page without an origin, in an old browser", here, http.Header{"Origin": {"null"}}, 200, 403},
		{"a value that browsers do not send", here, http.Header{"Sec-Fetch-Site": {"Same-Origin"}}, 200, 403},
		{"a form or a link", here, http.Header{"X-Kennel-Console": nil}, 200, 403},
		{"another value of the header", here, http.Header{"X-Kennel-Console": {"true"}}, 200, 403},
		{"a page whose name leads to this machine", "mallory.example:7071", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://mallory.example:7071"}}, 401, 401},
		{"an address that other machines reach", "10.0.0.4:7071", nil, 401, 401},
	} {
		for mode, cfg := range map[string]config.Config{"local": {}, "signed in": {SignedIn: true}} {
			g := newGuarded(t, cfg)
			for method, want := range map[string]int{
				"GET": tt.read, "HEAD": tt.read, "POST": tt.change, "PUT": tt.change, "DELETE": tt.change,
				"PATCH": 405, "OPTIONS": 405, "TRACE": 405, "post": 405,
			} {
				if want == 401 && cfg.SignedIn {
					want = 200 // the platform decides which names lead to the app
				}
				r := httptest.NewRequestWithContext(t.Context(), method, "http://"+tt.host+"/api/console/api/any/x", nil)
				r.Header.Set("X-Kennel-Console", "1")
				if cfg.SignedIn {
					r.Header.Set(principal.Header, apptest.PrincipalOf("ann", "Operator"))
				}
				for name, values := range tt.header {
					r.Header[name] = values
				}
				g.served = 0
				w := httptest.NewRecorder()
				g.ServeHTTP(w, r)
				if w.Code != want || (g.served == 1) != (want == 200) {
					t.Errorf("%s, %s, from %s: %d %s, served: %d, want %d", method, mode, tt.name, w.Code, w.Body, g.served, want)
				}
			}
		}
	}
}

// TestNullIsNoHost: a page without an origin, whose Origin is null, does not
// pass for one of an app that is called without a host.
func TestNullIsNoHost(t *testing.T) {
	g := newGuarded(t, config.Config{SignedIn: true})
	for _, host := range []string{"", "app.example"} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/api/console/api/any/x", nil)
		r.Host = host
		r.Header.Set("X-Kennel-Console", "1")
		r.Header.Set("Origin", "null")
		r.Header.Set(principal.Header, apptest.PrincipalOf("ann", "Operator"))
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != 403 || g.served != 0 {
			t.Errorf("host %q: %d %s, want 403", host, w.Code, w.Body)
		}
	}
}

// TestHeadersOfTheConsole: no answer is stored, guessed at, framed or read by
// another site, whatever becomes of the call. Only files of the page may be
// kept, if the browser compares them first.
func TestHeadersOfTheConsole(t *testing.T) {
	for _, tt := range []struct {
		name, method, path string
		header             http.Header
		status             int
		cache              string
	}{
		{"a read", "GET", "/api/any/x", nil, 200, "no-store"},
		{"its head", "HEAD", "/api/any/x", nil, 200, "no-store"},
		{"a change", "POST", "/api/any/x", nil, 200, "no-store"},
		{"who calls", "GET", "/api/me", nil, 200, "no-store"},
		{"not signed in", "GET", "/api/any/x", http.Header{principal.Header: nil}, 401, "no-store"},
		{"without the role", "POST", "/api/any/x", http.Header{principal.Header: {apptest.PrincipalOf("eve", "Reader")}}, 403, "no-store"},
		{"from another site", "POST", "/api/any/x", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403, "no-store"},
		{"no such address", "GET", "/api/none", nil, 404, "no-store"},
		{"another method", "PATCH", "/api/any/x", nil, 405, "no-store"},
		{"another method of the page", "POST", "", nil, 405, "no-store"},
		{"an unknown parameter", "GET", "/api/any/x?a=1", nil, 400, "no-store"},
		{"a file", "GET", "/app.js", nil, 200, "no-cache"},
		{"the page", "GET", "", nil, 200, "no-cache"},
		{"the page, not signed in", "GET", "", http.Header{principal.Header: nil}, 401, "no-store"},
	} {
		g := newGuarded(t, config.Config{SignedIn: true})
		r := httptest.NewRequestWithContext(t.Context(), tt.method, "https://app.example/api/console"+tt.path, nil)
		r.Header.Set("X-Kennel-Console", "1")
		r.Header.Set("Origin", "https://app.example")
		r.Header.Set(principal.Header, apptest.PrincipalOf("ann", "Operator"))
		for name, values := range tt.header {
			r.Header[name] = values
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		h := w.Header()
		if w.Code != tt.status || h.Get("Cache-Control") != tt.cache {
			t.Errorf("%s: %d with Cache-Control %q, want %d with %q", tt.name, w.Code, h.Get("Cache-Control"), tt.status, tt.cache)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Strict-Transport-Security": "max-age=31536000",
			"Access-Control-Allow-Origin": "", "Set-Cookie": "",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", tt.name, name, got, want)
			}
		}
		if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: Content-Security-Policy %q", tt.name, policy)
		}
		if h.Get("X-Request-Id") == "" {
			t.Errorf("%s: no X-Request-Id", tt.name)
		}
	}
}

// TestAChangeIsOneLine: nothing that a caller sends begins another line of the
// log.
func TestAChangeIsOneLine(t *testing.T) {
	const forged = "x\n{\"level\":\"INFO\",\"msg\":\"change through the console\",\"principal\":\"bob\"}\r\u2028"
	g := newGuarded(t, config.Config{SignedIn: true})
	r := httptest.NewRequestWithContext(t.Context(), "POST", "https://app.example/api/console/api/any/x", nil)
	r.URL.Path, r.URL.RawPath = "/api/console/api/any/"+forged, ""
	r.Header.Set("X-Kennel-Console", "1")
	r.Header.Set(principal.Header, apptest.PrincipalOf("ann"+forged, "Operator"))
	r.Header.Set("X-Kennel-Reason", strings.NewReplacer("%", "%25", "\n", "%0A", "\r", "%0d", "\u2028", "%E2%80%A8").Replace(forged)+"%ff%00")
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	if line := g.log.String(); w.Code != 200 || strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") || strings.ContainsAny(line, "\r\x00\u2028") ||
		strings.Count(line, `"principal":`) != 1 {
		t.Errorf("%d, and in the log %s; want 200 and one line", w.Code, line)
	}
}

// TestWorkerServesTheConsoleAlone: no spelling of an address leads from the
// console to another route of the process behind it, nor to its envelopes.
func TestWorkerServesTheConsoleAlone(t *testing.T) {
	g := newGuarded(t, config.Config{})
	served := httptest.NewServer(&Probes{Console: g})
	defer served.Close()
	call := func(method, path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, served.URL, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Opaque = path // as it is
		r.Header.Set("X-Kennel-Console", "1")
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, fmt.Sprintf("%s, Location %q", body, answer.Header.Get("Location"))
	}
	for _, method := range []string{"GET", "POST"} {
		for path, want := range map[string]int{
			"/api/console/api/any/x": 200, "/api/console/api/any/x/": 200, "/api/console/api/ANY/x": 200,
			"/api/console/api/any/%5c..%5cany": 200, // a name
			"/api/console/api/any/..%2fx":      404,
			"/api/any/x":                       404, "/Console": 404, "/Any": 404, "/": 404, "/api": 404, "//api/any/x": 404, // of a host called api
			"/api/consoles/api/any/x": 404,
			"/api/console/../any/x":   404, "/api/console/%2e%2e/any/x": 404, "/api/console/.%2E/any/x": 404, "/api/console/..%2fany/x": 404, "/api/console/..%5cany/x": 404,
			"/api/console/api/../../any/x": 404, "/api/console/api/..%2f..%2fany%2fx": 404, "/api/console//api/any/x": 404, "/api/console/api//any/x": 404,
			"/api/console/./api/any/x": 404, "/api/console/api/any/..": 404, "/api/console/../../Console": 404, "/api/console/../../Any": 404, "/api/console%2fapi/any/x": 404,
			"/api/console/api/api/any/x": 404, "/api/console;/api/any/x": 404, "/api/console/api/any/x%00": 200,
		} {
			g.served = 0
			if got, answer := call(method, path); got != want || (g.served == 1) != (want == 200) {
				t.Errorf("%s %s: %d %s, served: %d, want %d", method, path, got, answer, g.served, want)
			}
		}
	}
}
