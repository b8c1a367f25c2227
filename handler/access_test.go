package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/doctor"
	"kennel/internal/edge"
	"kennel/internal/principal"
	"kennel/internal/storetest"
)

// needs is the role that a person needs for each route. A function key opens
// all routes but GET /api/health, which needs none.
var needs = map[string]edge.Role{
	"POST /api/sequences/{sequence}/next":         edge.Operator,
	"POST /api/sequences/{sequence}/next/return":  edge.Operator,
	"GET /api/sequences":                          edge.Reader,
	"GET /api/sequences/{sequence}":               edge.Reader,
	"POST /api/sequences/{sequence}/raise":        edge.Operator,
	"GET /api/gates":                              edge.Reader,
	"GET /api/gates/{gate}":                       edge.Reader,
	"GET /api/gates/{gate}/waiters":               edge.Reader,
	"POST /api/gates/{gate}/release":              edge.Operator,
	"POST /api/gates/{gate}/close":                edge.Operator,
	"GET /api/gates/{gate}/wait":                  edge.Reader,
	"GET /api/channels":                           edge.Reader,
	"PUT /api/channels/{channel}":                 edge.Operator,
	"GET /api/channels/{channel}":                 edge.Reader,
	"DELETE /api/channels/{channel}":              edge.Operator,
	"GET /api/channels/{channel}/deletion":        edge.Reader,
	"POST /api/channels/{channel}/blogs":          edge.Operator,
	"GET /api/channels/{channel}/blogs":           edge.Reader,
	"GET /api/channels/{channel}/blogs/{blog}":    edge.Reader,
	"PUT /api/channels/{channel}/blogs/{blog}":    edge.Operator,
	"DELETE /api/channels/{channel}/blogs/{blog}": edge.Operator,
	"POST /api/batches":                           edge.Operator,
	"GET /api/batches":                            edge.Reader,
	"GET /api/batches/{batch}":                    edge.Reader,
	"GET /api/batches/{batch}/results":            edge.Reader,
	"GET /api/batches/{batch}/report":             edge.Reader,
	"GET /api/queues":                             edge.Reader,
	"GET /api/queues/{queue}":                     edge.Reader,
	"POST /api/queues/{queue}/messages":           edge.Operator,
	"POST /api/queues/{queue}/pause":              edge.Operator,
	"POST /api/queues/{queue}/resume":             edge.Operator,
	"GET /api/deadletters":                        edge.Reader,
	"GET /api/deadletters/{queue}":                edge.Reader,
	"POST /api/deadletters/{queue}/redrive":       edge.Operator,
	"POST /api/deadletters/{queue}/delete":        edge.Operator,
	"POST /api/messages/{entity}":                 edge.Operator,
	"GET /api/relay":                              edge.Reader,
	"POST /api/relay/syphon":                      edge.Operator,
	"GET /api/timers":                             edge.Reader,
	"GET /api/timers/{timer}":                     edge.Reader,
	"POST /api/timers/{timer}/run":                edge.Operator,
	"POST /api/timers/{timer}/pause":              edge.Operator,
	"POST /api/timers/{timer}/resume":             edge.Operator,
	"GET /api/scale":                              edge.Reader,
	"GET /api/scale/history":                      edge.Reader,
	"GET /api/scale/rules":                        edge.Reader,
	"PUT /api/scale/rules":                        edge.Operator,
	"GET /api/health":                             edge.Reader,
	"GET /api/status":                             edge.Reader,
	"GET /api/doctor":                             edge.Reader,
	"GET /api/metrics":                            edge.Reader,
	"GET /api/openapi.yaml":                       edge.Reader,
}

// What becomes of a call.
const (
	served      = "served"
	noPrincipal = "500 of the host" // with sign-in on
	noKey       = "401 of the host"
	signIn      = "401 sign_in_required"
	role403     = "403 role_required"
	crossSite   = "403 cross_site"
)

// Keys of the host.
const (
	masterKey = "the-master-key"
	hostKey   = "the-host-key"
	ownKey    = "the key of the function that is called"
	otherKey  = "the key of another function"
)

// caller is a row of the matrix.
type caller struct {
	name   string
	rare   bool // calls only every fifth route
	key    string
	header http.Header
	api    string // with the address of machines, in each mode

	// Through the console: reads and changes on the machine of a developer, in
	// Azure without sign-in, and in Azure with sign-in.
	local, azure, signedIn [2]string
}

// always are the callers that call every route also without sign-in, where it
// does not matter who they are.
var always = []string{"without anything", "with the host key", "Operator"}

func callers() []caller {
	as := func(roles ...string) http.Header {
		return http.Header{principal.Header: {apptest.PrincipalOf("ann@example.com", roles...)}}
	}
	with := func(h http.Header, name, value string) http.Header {
		h = maps.Clone(h)
		if h == nil {
			h = make(http.Header)
		}
		h.Set(name, value)
		return h
	}
	all, none := [2]string{served, served}, [2]string{signIn, signIn}
	read, foreign := [2]string{served, role403}, [2]string{served, crossSite}
	neither, unread := [2]string{role403, role403}, [2]string{noPrincipal, noPrincipal}
	asOperator := as("Operator")
	return []caller{
		{"without anything", false, "", nil, noKey, all, none, none},
		{"with the key of the function", false, ownKey, nil, served, all, none, none},
		{"with the host key", false, hostKey, nil, served, all, none, none},
		{"with the master key", true, masterKey, nil, served, all, none, none},
		{"with a wrong key", false, "wrong", nil, noKey, all, none, none},
		{"with the key of another function", false, otherKey, nil, noKey, all, none, none},
		{"without a role", false, "", as(), noKey, none, none, neither},
		{"with other roles", true, "", as("reader", "Operators", ""), noKey, none, none, neither},
		{"Reader", false, "", as("Reader"), noKey, none, none, read},
		{"Operator", false, "", asOperator, noKey, none, none, all},
		{"Reader and Operator", true, "", as("Other", "Reader", "Operator"), noKey, none, none, all},
		{"Operator with a key", true, ownKey, asOperator, served, none, none, all},
		{"with a principal that cannot be read", true, "", http.Header{principal.Header: {"e30"}}, noPrincipal, none, none, unread},
		{"with two principals", true, "", http.Header{principal.Header: {apptest.PrincipalOf("ann", "Reader"), apptest.PrincipalOf("bob", "Operator")}}, noPrincipal, none, none, unread},
		{"Operator, from a page of another site", false, "", with(asOperator, "Sec-Fetch-Site", "cross-site"), noKey, none, none, foreign},
		{"Operator, from another origin", true, "", with(asOperator, "Origin", "https://mallory.example"), noKey, none, none, foreign},
		{"Operator, from a form", true, "", with(asOperator, "X-Kennel-Console", ""), noKey, none, none, foreign},
		{"from a page of another site", true, "", with(nil, "Sec-Fetch-Site", "cross-site"), noKey, foreign, none, none},
		{"from a page whose name leads to this machine", true, "", http.Header{"Host": {"mallory.example:7071"}}, noKey, none, none, none},
	}
}

// TestAccess calls every route as every caller, through a host that checks keys:
// on the machine of a developer, in Azure without sign-in, and with it.
func TestAccess(t *testing.T) {
	t.Parallel()
	routes := appRoutes(t)
	for _, rt := range routes {
		if needs[rt.Pattern] != rt.Role() {
			t.Errorf("%s requires the role %q: want %q, or add it to the table of this test", rt.Pattern, rt.Role(), needs[rt.Pattern])
		}
	}
	if len(routes) != len(needs) {
		t.Errorf("%d routes, and %d in the table of this test", len(routes), len(needs))
	}
	parameter := regexp.MustCompile(`\{[a-z]+\}`)
	for i, mode := range []struct {
		name string
		env  []string
		want func(caller) [2]string
	}{
		{"local", nil, func(c caller) [2]string { return c.local }},
		{"Azure", []string{"WEBSITE_INSTANCE_ID=1f0c", "WEBSITE_AUTH_ENABLED=False"}, func(c caller) [2]string { return c.azure }},
		{"signed in", []string{"WEBSITE_SITE_NAME=my-app", "WEBSITE_AUTH_ENABLED=True"}, func(c caller) [2]string { return c.signedIn }},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			h := startHosted(t, asInRepository, mode.env...)
			for j, rt := range routes {
				method, path, _ := strings.Cut(parameter.ReplaceAllString(rt.Pattern, "x"), " ")
				change := 0
				if method != "GET" {
					change = 1
				}
				writes := rt.Pattern == api.DoctorPattern
				rarely := j%storetest.Scale(20, 5) != i && !writes
				for _, c := range callers() {
					if rarely && (c.rare || i < 2 && !slices.Contains(always, c.name)) {
						continue
					}
					want := c.api
					if rt.Function == "Health" && (i < 2 || want != noPrincipal) {
						want = served
					}
					if i == 2 || rt.Function == "Health" { // the check of keys is the host's
						if got := h.call(t, method, path, c, rt.Function); got != want {
							t.Errorf("%s %s: %s, want %s", rt.Pattern, c.name, got, want)
						}
					}
					if rarely && i == 2 && c.key != "" {
						continue // a key means nothing to the console
					}
					want = mode.want(c)[change]
					if writes && mode.want(c)[1] == crossSite {
						want = crossSite
					}
					if got := h.call(t, method, edge.ConsoleBase+path, c, edge.ConsoleFunction); got != want {
						t.Errorf("%s through the console %s: %s, want %s", rt.Pattern, c.name, got, want)
					}
				}
			}
			for _, c := range callers() {
				if got, want := h.call(t, "GET", edge.ConsoleBase+"/api/me", c, edge.ConsoleFunction), mode.want(c)[0]; got != want {
					t.Errorf("GET %s/api/me %s: %s, want %s", edge.ConsoleBase, c.name, got, want)
				}
				want := served // to everyone whose call passes the host
				if i == 2 && c.api == noPrincipal {
					want = noPrincipal
				}
				if got := h.call(t, "GET", edge.ConsoleBase+"/app.js", c, edge.ConsoleFunction); got != want {
					t.Errorf("GET %s/app.js %s: %s, want %s", edge.ConsoleBase, c.name, got, want)
				}
			}
			switch i {
			case 0:
				h.testPage(t)
			case 2:
				h.testOthers(t, routes)
			}
		})
	}
}

// testOthers checks what is not a route of the API.
func (h hosted) testOthers(t *testing.T, routes []edge.Route) {
	asOperator := http.Header{principal.Header: {apptest.PrincipalOf("ann", "Operator")}}
	for function, isHTTP := range h.functions {
		if isHTTP != (function == edge.ConsoleFunction || slices.ContainsFunc(routes, func(rt edge.Route) bool { return rt.Function == function })) {
			t.Errorf("function %s has an HTTP trigger: %t, want one exactly if it has routes", function, isHTTP)
		}
		// The host invokes a function at /NAME of the handler. Neither that nor the
		// routes of the host itself lead to a function from outside.
		for _, path := range []string{"/" + function, "/api/" + function, edge.ConsoleBase + "/" + function, edge.ConsoleBase + "/api/" + function, "/admin/functions/" + function, "/runtime/" + function} {
			for _, key := range []string{"", hostKey} {
				got := h.call(t, "POST", path, caller{key: key, header: asOperator}, function)
				if got == served || got[0] != '4' {
					t.Errorf("POST %s with the key %q: %s, want it rejected", path, key, got)
				}
			}
		}
	}
	for _, path := range []string{"/index.html", "/api/me/x", "/views", "/views/", "/../page/style.css", "/console.go", "/api", "/api/", "/api/gates/x/y/z", "/api/console/api/gates", "/API/Gates/../../../admin/host/status"} {
		if got := h.call(t, "GET", edge.ConsoleBase+path, caller{header: asOperator}, ""); got == served || got[0] != '4' {
			t.Errorf("GET %s: %s, want it rejected", edge.ConsoleBase+path, got)
		}
	}
	if got := h.call(t, "GET", "/API/Console/Api/GATES/", caller{header: asOperator}, ""); got != served {
		t.Errorf("an address in another case: %s, want it served", got)
	}
	if got := h.call(t, "GET", "/API/Console/Api/GATES/", caller{}, ""); got != signIn {
		t.Errorf("an address in another case: %s, want %s", got, signIn)
	}
}

// testPage checks what the host makes of the page's answers, and of bodies that
// it cannot pass on in an envelope.
func (h hosted) testPage(t *testing.T) {
	call := func(method, path, body string, header http.Header) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, h.url+edge.ConsoleBase+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header.Clone()
		r.Header.Set("X-Kennel-Console", "1")
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(text)
	}
	for _, path := range []string{"", "/app.js", "/style.css", "/icon.svg"} {
		answer, text := call("GET", path, "", http.Header{})
		etag := answer.Header.Get("ETag")
		if answer.StatusCode != 200 || etag == "" || text == "" {
			t.Errorf("GET %s: %d, ETag %q, %d bytes", path, answer.StatusCode, etag, len(text))
		}
		for method, header := range map[string]http.Header{"GET": {"If-None-Match": {`"a"`, "W/" + etag}}, "HEAD": {}} {
			want := 200
			if len(header) > 0 {
				want = 304
			}
			if answer, text := call(method, path, "", header); answer.StatusCode != want || text != "" || answer.Header.Get("ETag") != etag {
				t.Errorf("%s %s with %v: %d, ETag %q, %d bytes, want %d without a body", method, path, header, answer.StatusCode, answer.Header.Get("ETag"), len(text), want)
			}
		}
		if answer, text := call("POST", path, "x", http.Header{}); answer.StatusCode != 405 || answer.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d %s, want 405", path, answer.StatusCode, text)
		}
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	io.WriteString(w, `{"id":"1"}`)
	w.Close()
	items := http.Header{"Content-Type": {"application/x-ndjson"}}
	for _, tt := range []struct{ name, body, want string }{
		{"1 MiB", strings.Repeat(" ", edge.MaxBody), `"code":"bad_items"`},
		{"a byte more", strings.Repeat(" ", edge.MaxBody+1), `"code":"body_too_large"`},
		{"more than an envelope may have", strings.Repeat(" ", 4*edge.MaxBody+1), `"code":"body_too_large"`},
		{"compressed", packed.String(), `"code":"bad_items"`},
	} {
		if answer, text := call("POST", "/api/batches?processor=billing", tt.body, items); answer.StatusCode/100 != 4 || !strings.Contains(text, tt.want) {
			t.Errorf("a batch, %s: %d %.300s, want %s", tt.name, answer.StatusCode, text, tt.want)
		}
	}
}

// TestKeysCannotBeAvoided: the host forwards a call by a path that it rebuilds
// after it has checked the key of the function. Without envelopes, everyone
// could call all routes through the function Console, whose level is anonymous.
func TestKeysCannotBeAvoided(t *testing.T) {
	t.Parallel()
	paths := []string{
		"/api/console/..%5Cgates%5Cx%5Crelease", "/api/console/api%5c..%5C../gates/x/release", "/API/Console/%252e%252e/gates/x/release",
		"/api/console/.%252E%5Cgates/x/release", "/api/console/x/..%5C..%5C..%5Capi%5Cgates/x/release",
	}
	others := []string{"/api/console/%2e%2e/gates/x/release", "/api/console/..%2Fgates%2Fx%2Frelease", "/api/console/../gates/x/release", "/api/health/..%5Cgates/x/release", "/api/health%5C..%5Cgates/x/release"}
	for _, envelopes := range []bool{true, false} {
		h := startHosted(t, func(name string, text []byte) []byte {
			if envelopes || name != edge.ConsoleFunction {
				return text
			}
			without := regexp.MustCompile(`(?s),\s*\{\s*"type": "queue".*?\}`).ReplaceAll(text, nil)
			if _, err := doctor.CheckAccess(fstest.MapFS{"Console/function.json": {Data: without}}, nil); err == nil {
				t.Error("the doctor does not find that the function Console has no second output")
			}
			return without
		}, "WEBSITE_SITE_NAME=my-app", "WEBSITE_AUTH_ENABLED=true")
		for _, path := range slices.Concat(paths, others) {
			got, avoided := h.call(t, "POST", path, caller{}, ""), !envelopes && slices.Contains(paths, path)
			if avoided != (got == served) {
				t.Errorf("POST %s without a key, in an envelope: %t: %s", path, envelopes, got)
			}
		}
	}
}

// TestLevels: the functions of the repository have the levels that the app
// relies on, and the doctor finds others.
func TestLevels(t *testing.T) {
	if detail, err := doctor.CheckAccess(os.DirFS("../functions"), nil); err != nil || !strings.HasSuffix(detail, "HTTP functions") || detail[0] == '0' {
		t.Errorf("levels of the functions: %q, %v", detail, err)
	}
	function := func(level string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(`{"bindings":[{"type":"httpTrigger","authLevel":"` + level + `"},{"type":"http"}]}`)}
	}
	_, err := doctor.CheckAccess(fstest.MapFS{"Health/function.json": function("function"), "Channels/function.json": function("anonymous"), "Other/function.json": function("function"), "Route-hello/function.json": function("anonymous")}, map[string]string{"Route-hello": "anonymous"})
	if err == nil || !strings.Contains(err.Error(), `function Channels is "anonymous" instead of "function"`) || !strings.Contains(err.Error(), "Health") || strings.Contains(err.Error(), "Other") {
		t.Errorf("wrong levels: %v", err)
	}
	if _, err := doctor.CheckAccess(fstest.MapFS{"Other/function.json": {Data: []byte("{")}}, nil); err == nil {
		t.Error("no error for a broken function.json")
	}
}
