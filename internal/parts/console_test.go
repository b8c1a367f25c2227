package parts

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kennel/gate"
	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/loopback"
	"kennel/internal/memory"
	"kennel/internal/principal"
)

// TestChangesThroughTheConsole: a change is made in the name of who is signed
// in, whatever the body states, and is logged with it, as is one that is
// rejected. Its answer leads to the console again.
func TestChangesThroughTheConsole(t *testing.T) {
	type line struct {
		Msg, Principal, PrincipalID, Route, Path string
		Status                                   int
	}
	for _, tt := range []struct {
		name     string
		cfg      config.Config
		header   http.Header
		envelope bool
		want     line // without the name of the route
		by       string
	}{
		{"signed in", config.Config{SignedIn: true}, http.Header{principal.Header: {apptest.PrincipalOf("ann@example.com", "Operator")}, "X-Ms-Client-Principal-Name": {"bob"}}, false,
			line{Principal: "ann@example.com", PrincipalID: "5b5450db-eb26-4c1a-981c-ba1d25f0483d", Status: 200}, "ann@example.com"},
		{"in an envelope", config.Config{SignedIn: true}, http.Header{principal.Header: {apptest.PrincipalOf("ann@example.com", "Operator")}}, true,
			line{Principal: "ann@example.com", PrincipalID: "5b5450db-eb26-4c1a-981c-ba1d25f0483d", Status: 200}, "ann@example.com"},
		{"Reader", config.Config{SignedIn: true}, http.Header{principal.Header: {apptest.PrincipalOf("eve", "Reader")}}, false,
			line{Principal: "eve", PrincipalID: "5b5450db-eb26-4c1a-981c-ba1d25f0483d", Status: 403}, ""},
		{"on this machine", config.Config{}, http.Header{}, true, line{Principal: edge.Unnamed, Status: 200}, "body"},
		{"not signed in", config.Config{SignedIn: true}, http.Header{}, true, line{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			logger := slog.New(customhandler.NewLogHandler(slog.NewJSONHandler(&log, nil)))
			host, err1 := customhandler.New(&customhandler.Options{Log: logger})
			gates, err2 := gate.New(memory.NewValues(nil), nil)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			routes := api.GateResource{Gates: gates, SignedIn: tt.cfg.SignedIn}.Routes()
			routes = append(routes, edge.Route{Function: "Channels", Pattern: "PUT /api/channels/{channel}", Body: true, Handler: api.Serve(nil, func(*http.Request) (edge.Reply, error) {
				return edge.Reply{Status: 201, Location: "/api/channels/news", Body: struct{}{}}, nil
			})})
			edge.ServeRoutes(host, edge.NewPeople(tt.cfg, logger).Routes(routes))
			call := func(method, path, body string) (status int, header http.Header, answer string) {
				r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost:7071"+path, strings.NewReader(body))
				r.Header = tt.header.Clone()
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-Kennel-Console", "1")
				w := httptest.NewRecorder()
				if !tt.envelope {
					host.ServeHTTP(w, r)
					return w.Code, w.Header(), w.Body.String()
				}
				e, err := customhandler.Trigger{Function: edge.ConsoleFunction, Binding: "req"}.HTTP(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				text, err := json.Marshal(e)
				if err != nil {
					t.Fatal(err)
				}
				host.ServeHTTP(w, apptest.Enveloped(t.Context(), edge.ConsoleFunction, string(text)))
				var got struct {
					Outputs struct {
						Res struct {
							StatusCode int
							Headers    map[string]string
							Body       string
						}
					}
				}
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
					t.Fatalf("%s: %v", w.Body, err)
				}
				header = make(http.Header)
				for name, value := range got.Outputs.Res.Headers {
					header.Set(name, value)
				}
				return got.Outputs.Res.StatusCode, header, got.Outputs.Res.Body
			}
			status, _, body := call("POST", "/api/console/api/gates/hounds/release", `{"by":"body"}`)
			var state struct{ By string }
			if err := json.Unmarshal([]byte(body), &state); err != nil || state.By != tt.by || tt.want.Status != 0 && status != tt.want.Status {
				t.Errorf("release: %d %s, want %d by %q", status, body, tt.want.Status, tt.by)
			}
			if tt.want.Status == 0 {
				if status != 401 || log.Len() > 0 {
					t.Errorf("release: %d %s, and in the log %s; want 401 and nothing", status, body, &log)
				}
				return
			}
			want := tt.want
			want.Msg, want.Route, want.Path = "change through the console", "POST /api/console/api/gates/{gate}/release", "/api/console/api/gates/hounds/release"
			var got line
			if err := json.Unmarshal(log.Bytes(), &got); err != nil || got != want { // one line
				t.Errorf("logged %s, want %+v once", &log, want)
			}
			log.Reset()
			if status, _, body := call("GET", "/api/console/api/gates/hounds", ""); status != 200 || log.Len() > 0 {
				t.Errorf("read: %d %s, and in the log %s; want 200 and nothing", status, body, &log)
			}
			if status, header, body := call("PUT", "/api/console/api/channels/news", "{}"); tt.want.Status == 200 && (status != 201 || header.Get("Location") != "/api/console/api/channels/news") {
				t.Errorf("PUT: %d %v %s, want 201 with the address in the console", status, header, body)
			}
		})
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:7071": true, "127.9.9.9": true, "localhost:7071": true, "LOCALHOST": true, "[::1]:7071": true, "[::1]": true, "::1": true,
		"": false, "localhost.example": false, "127.0.0.1.example:80": false, "0.0.0.0:7071": false, "10.0.0.1": false, "[::]:1": false, "127.1": false, "a:b:c": false,
	} {
		if loopback.IsHost(host) != want {
			t.Errorf("%q is this machine: %t", host, !want)
		}
	}
}
