package app

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/apptest"
	"kennel/internal/config"
	page "kennel/internal/console"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/principal"
)

// TestPage: every caller gets the files of the page, and the page itself with
// 401 if who calls is not known. Only who has a role is described by …/me.
func TestPage(t *testing.T) {
	type me struct {
		Name      string
		Roles     []string
		Local     bool
		Functions []string // of the API
	}
	routes := []edge.Route{{Function: "B", Pattern: "GET /api/b"}, {Function: "A", Pattern: "GET /api/a"}, {Function: "B", Pattern: "POST /api/b"}}
	functions := []string{"A", "B"}
	const signInAt = `Bearer authorization_uri="/.auth/login/aad"`
	for _, tt := range []struct {
		name      string
		cfg       config.Config
		host      string
		principal string
		page      int
		challenge string
		code      string // of …/me
		me        me
	}{
		{"on this machine", config.Config{}, "127.0.0.1:7071", "", 200, "", "", me{edge.Unnamed, []string{"Reader", "Operator"}, true, functions}},
		{"at a foreign name", config.Config{}, "mallory.example:7071", "", 401, "Bearer", "sign_in_required", me{}},
		{"Operator", config.Config{SignedIn: true}, "app.example", apptest.PrincipalOf("ann", "Operator"), 200, "", "", me{"ann", []string{"Reader", "Operator"}, false, functions}},
		{"Reader", config.Config{SignedIn: true}, "app.example", apptest.PrincipalOf("eve", "Reader", "Other"), 200, "", "", me{"eve", []string{"Reader"}, false, functions}},
		{"without a role", config.Config{SignedIn: true}, "app.example", apptest.PrincipalOf("bob"), 200, "", "role_required", me{}},
		{"not signed in", config.Config{SignedIn: true}, "app.example", "", 401, signInAt, "sign_in_required", me{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host, err := customhandler.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			edge.ServeRoutes(host, edge.NewPeople(tt.cfg, slog.New(slog.DiscardHandler)).Routes(routes))
			call := func(path, ifNoneMatch string) (answer *http.Response, body string) {
				r := httptest.NewRequestWithContext(t.Context(), "GET", "http://"+tt.host+path, nil)
				if tt.principal != "" {
					r.Header.Set(principal.Header, tt.principal)
				}
				if ifNoneMatch != "" {
					r.Header.Set("If-None-Match", ifNoneMatch)
				}
				w := httptest.NewRecorder()
				host.ServeHTTP(w, r)
				return w.Result(), w.Body.String()
			}
			for _, path := range []string{"/api/console", "/api/console/", "/API/Console"} {
				answer, body := call(path, "")
				if answer.StatusCode != tt.page || !strings.Contains(body, "/api/console/app.js") || answer.Header.Get("WWW-Authenticate") != tt.challenge {
					t.Errorf("%s: %d %v %.60s, want %d with the page and the challenge %q", path, answer.StatusCode, answer.Header, body, tt.page, tt.challenge)
				}
				if !strings.Contains(answer.Header.Get("Content-Security-Policy"), "script-src 'self';") || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
					t.Errorf("%s: %v, want HTML with the policy of the page", path, answer.Header)
				}
				if again, _ := call(path, answer.Header.Get("ETag")); tt.page == 200 && again.StatusCode != 304 {
					t.Errorf("%s with its ETag: %d, want 304", path, again.StatusCode)
				}
			}
			for _, file := range page.Files() {
				path := "/api/console/" + string(file)
				want := 200
				if file == page.Index {
					want = 404 // it has one address
				}
				if answer, _ := call(path, ""); answer.StatusCode != want {
					t.Errorf("%s: %d, want %d", path, answer.StatusCode, want)
				}
			}
			for _, path := range []string{"/api/console/nothing.js", "/api/console/views", "/api/console/api", "/api/console/api/nothing", "/api/console/../console/app.js", "/api/me"} {
				if answer, body := call(path, ""); answer.StatusCode != 404 || !strings.Contains(body, `"not_found"`) {
					t.Errorf("%s: %d %s, want 404", path, answer.StatusCode, body)
				}
			}
			answer, body := call("/api/console/api/me", "")
			var got struct {
				me
				Error struct{ Code string }
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil || got.Error.Code != tt.code || !cmp.Equal(got.me, tt.me) || answer.Header.Get("WWW-Authenticate") != tt.challenge {
				t.Errorf("me: %d %v %s, want %+v or %q", answer.StatusCode, answer.Header, body, tt.me, tt.code)
			}
		})
	}
}

// TestMeIsDocumented: docs/api.md shows every member of the answer of /me.
func TestMeIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "- `GET /api/console/api/me`")
	shown, _, _ := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("docs/api.md does not have the route")
	}
	host, err := customhandler.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	edge.ServeRoutes(host, edge.NewPeople(config.Config{}, slog.New(slog.DiscardHandler)).Routes(nil))
	w := httptest.NewRecorder()
	host.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:7071/api/console/api/me", nil))
	var members map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &members); err != nil || len(members) == 0 {
		t.Fatalf("%s, %v", w.Body, err)
	}
	for member := range members {
		if !strings.Contains(shown, strconv.Quote(member)+":") {
			t.Errorf("docs/api.md does not show %q of the answer", member)
		}
	}
}

// TestReasonIsLogged: the reason of a change is in the log as the person wrote
// it, also that of a change that is rejected.
func TestReasonIsLogged(t *testing.T) {
	var log bytes.Buffer
	host, err := customhandler.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	api := edge.Route{Function: "Any", Pattern: "POST /api/any", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") })}
	edge.ServeRoutes(host, edge.NewPeople(config.Config{}, slog.New(slog.NewJSONHandler(&log, nil))).Routes([]edge.Route{api}))
	for header, want := range map[string]string{
		"":                             "",
		"plain":                        "plain",
		"nuits%20%C3%A0%20l%27%0A":     "nuits à l'\n",
		"50%":                          "50%", // not escaped
		strings.Repeat("%C3%A9", 2000): strings.Repeat("é", edge.MaxReason),
	} {
		for _, sent := range []string{"1", ""} {
			log.Reset()
			r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost:7071/api/console/api/any", nil)
			r.Header.Set("X-Kennel-Console", sent)
			r.Header.Set("X-Kennel-Reason", header)
			host.ServeHTTP(httptest.NewRecorder(), r)
			var line struct{ Msg, Reason string }
			if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Msg != "change through the console" || line.Reason != want {
				t.Errorf("reason %.40q: logged %.200s, want the reason %.40q", header, &log, want)
			}
		}
	}
}

// TestOnLoopback: a worker serves the console only where no other machine
// reaches it.
func TestOnLoopback(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:0": true, "localhost:0": true, "0.0.0.0:0": false, ":0": false} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if onLoopback(l) != want {
			t.Errorf("%s is a loopback address: %t", address, !want)
		}
		l.Close()
	}
	p := &Probes{}
	if status, _ := apptest.ProbeOf(t, p, "GET", edge.ConsoleBase); status != 404 {
		t.Errorf("the console of a worker that others reach: %d, want 404", status)
	}
}

// A worker is ready when its program has started and storage has answered.
func TestReady(t *testing.T) {
	begun := make(chan struct{})
	p := &Probes{Begun: begun}
	wants := func(status int, reason string) {
		t.Helper()
		if got, text := apptest.ProbeOf(t, p, "GET", "/readyz"); got != status || text != reason {
			t.Errorf("%d %q, want %d %q", got, text, status, reason)
		}
	}
	wants(503, "the program has not started")
	p.Received(nil)
	wants(503, "the program has not started")
	close(begun)
	wants(200, "")
	p.Stop()
	wants(503, "the worker is stopping")
}
