package localhost

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestForwardedCall(t *testing.T) {
	t.Parallel()
	r := start(t, plainApp(), Options{Queues: newQueues(t), Env: map[string]string{"FUNCTIONS_REQUEST_BODY_SIZE_LIMIT": "10"}})
	tests := []struct {
		name, method, path, body string
		want                     int
		seen                     string // by the handler: method, path, body's length
	}{
		{"get", "GET", "/api/raw/a%20b?do=echo", "", 200, "GET /api/raw/a%20b?do=echo 0"},
		{"any method", "PATCH", "/api/raw/x?do=echo", "hello", 200, "PATCH /api/raw/x?do=echo 5"},
		{"any case", "GET", "/API/Raw/x?do=echo", "", 200, "GET /API/Raw/x?do=echo 0"},
		{"status passes", "GET", "/api/raw/x?do=status:418", "", 418, ""},
		{"path decoded and rebuilt", "GET", "/api/raw/a%5Cb%3Fc?do=echo", "", 200, "GET /api/raw/a/b?do=echo 0"},
		{"path of another function", "GET", "/api/raw/..%5Cstill?do=echo", "", 200, "GET /api/still?do=echo 0"},
		{"empty segment", "GET", "/api/raw//x", "", 404, ""},
		{"encoded dots", "GET", "/api/raw/%2e%2e", "", 404, ""},
		{"path without the prefix", "GET", "/raw/x", "", 404, ""},
		{"no such function", "GET", "/api/nothing", "", 404, ""},
		{"body of the limit", "POST", "/api/raw/x?do=echo", "0123456789", 200, "POST /api/raw/x?do=echo 10"},
		{"body over the limit", "POST", "/api/raw/x?do=echo", "0123456789+", 500, ""},
	}
	for _, tt := range tests {
		resp, body := r.call(t, tt.method, tt.path, strings.NewReader(tt.body))
		if resp.StatusCode != tt.want || resp.Header.Get("X-Seen") != tt.seen {
			t.Errorf("%s: got %d, seen %q; want %d, %q", tt.name, resp.StatusCode, resp.Header.Get("X-Seen"), tt.want, tt.seen)
		}
		if tt.want == 200 && body != tt.body || tt.want == 404 && body != "" {
			t.Errorf("%s: got the body %q", tt.name, body)
		}
	}
	// The host's own id is the last one, and the answer's id reaches the caller.
	resp, _ := r.call(t, "GET", "/api/raw/x?do=echo", nil, func(req *http.Request) {
		req.Header.Set("X-Azure-Functions-InvocationId", "of-the-caller")
	})
	r.await(t, "Executed 'Raw' (Succeeded, Id="+resp.Header.Get("X-Request-Id")+",")
	if ids := resp.Header.Get("X-Request-Ids"); !strings.HasPrefix(ids, "of-the-caller, ") {
		t.Errorf("invocation ids = %q, want one line that begins with the caller's", ids)
	}
	// A body without a Content-Length does not reach the handler.
	resp, _ = r.call(t, "POST", "/api/raw/x?do=note:chunked", io.MultiReader(strings.NewReader("x")))
	if text := r.console.String(); resp.StatusCode != 500 || strings.Contains(text, "noted") {
		t.Errorf("chunked body: got %d, want 500 and no call:\n%s", resp.StatusCode, text)
	}
}

// TestServed checks that each request is reported, without its query.
func TestServed(t *testing.T) {
	t.Parallel()
	reports := make(chan Request, 1)
	r := start(t, rawApp(), Options{Served: func(r Request) { reports <- r }})
	for _, want := range []Request{
		{Method: "POST", Path: "/api/raw/a%1Bb", Status: 200},
		{Method: "GET", Path: "/api/raw/x", Status: 418},
		{Method: "GET", Path: "/admin/nothing", Status: 404},
	} {
		r.call(t, want.Method, want.Path+"?code=secret&do=status:"+strconv.Itoa(want.Status), nil)
		got := <-reports
		if got.Duration <= 0 {
			t.Errorf("%s %s took %v", got.Method, got.Path, got.Duration)
		}
		got.Duration = 0
		same(t, "report", got, want)
	}
}

func TestEnvelopeCall(t *testing.T) {
	t.Parallel()
	app := enveloped(plainApp())
	app["Wrap/function.json"] = `{"bindings":[{"type":"httpTrigger","name":"req","route":"wrap/{id?}","methods":["get","post"]},` + httpOutput + `]}`
	r := start(t, app, Options{Queues: newQueues(t)})

	resp, body := r.call(t, "POST", "/api/wrap/7?a=1&a=2", strings.NewReader(`{"x":"y"}`))
	if resp.StatusCode != 201 || resp.Header.Get("X-Function") != "/Wrap" {
		t.Errorf("got %d from %q, want 201 from /Wrap", resp.StatusCode, resp.Header.Get("X-Function"))
	}
	var envelope struct {
		Data struct {
			Req struct {
				Method, Body string
				Query        map[string]string
				Params       map[string]any
				Identities   []struct {
					IsAuthenticated bool
					Claims          []any
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &envelope); err != nil {
		t.Fatalf("the handler got %s: %v", body, err)
	}
	req := envelope.Data.Req
	if req.Method != "POST" || req.Body != `{"x":"y"}` || req.Query["a"] != "1,2" || req.Params["id"] != "7" {
		t.Errorf("the handler got %+v", req)
	}
	if ids := req.Identities; len(ids) != 1 || ids[0].IsAuthenticated || len(ids[0].Claims) > 0 {
		t.Errorf("identities of a caller without a key: got %+v", ids)
	}

	for _, tt := range []struct {
		name, method, path string
		want               int
	}{
		{"optional parameter absent", "GET", "/api/wrap", 201},
		{"method not listed", "PUT", "/api/wrap/7", 404},
		{"no http output", "GET", "/api/still", 204},
		{"failed invocation", "GET", "/api/wrap?do=status:503", 500},
		{"empty answer", "GET", "/api/wrap?do=empty", 500},
	} {
		resp, body := r.call(t, tt.method, tt.path, nil)
		if resp.StatusCode != tt.want || tt.want >= 400 && body != "" {
			t.Errorf("%s: got %d %q, want %d", tt.name, resp.StatusCode, body, tt.want)
		}
	}
	r.await(t, "Wrap: a log of /Wrap")
}

// TestEmptyPrefix checks that with an empty prefix a function may replace the
// homepage, but not /admin.
func TestEmptyPrefix(t *testing.T) {
	t.Parallel()
	r := start(t, files{
		"host.json":           strings.Replace(handlerHostJSON, `"version"`, `"extensions":{"http":{"routePrefix":""}},"version"`, 1),
		"Every/function.json": `{"bindings":[` + strings.Replace(httpBinding, `"name"`, `"route":"{*path}","name"`, 1) + `,` + httpOutput + `]}`,
	}, Options{})
	if resp, body := r.call(t, "GET", "/", nil); resp.StatusCode != 200 || body != "" {
		t.Errorf("root: got %d %q, want the function's 200 without a body", resp.StatusCode, body)
	}
	if resp, body := r.call(t, "GET", "/admin/host/status", nil); resp.StatusCode != 200 || !strings.Contains(body, "Running") {
		t.Errorf("host status: got %d %q, want 200 and Running", resp.StatusCode, body)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	app := plainApp()
	level := func(level string) string {
		return `{"bindings":[{"type":"httpTrigger","name":"req","authLevel":"` + level + `"},` + httpOutput + `]}`
	}
	app["Open/function.json"], app["Boss/function.json"] = level("anonymous"), level("admin")
	app["Closed/function.json"], app["Off/function.json"] = level("function"), level("function")
	r := start(t, app, Options{
		Keys: &Keys{Master: "m", Host: "h", Functions: map[string]string{"Closed": "c"}},
		Env:  map[string]string{"AzureWebJobs.Off.Disabled": "true"},
	})
	for _, tt := range []struct {
		name, path, header string
		want               int
	}{
		{"anonymous without a key", "/api/open?do=echo", "", 200},
		{"function without a key", "/api/closed?do=echo", "", 401},
		{"function with a wrong key", "/api/closed?do=echo", "x", 401},
		{"function with its key", "/api/closed?do=echo", "c", 200},
		{"function with its key in the query", "/api/closed?do=echo&code=c", "", 200},
		{"function with its key in the query, in another case", "/api/closed?do=echo&CODE=c", "", 200},
		{"the header overrides the query", "/api/closed?do=echo&code=c", "x", 401},
		{"function with the host's key", "/api/closed?do=echo", "h", 200},
		{"function with the master key", "/api/closed?do=echo", "m", 200},
		{"another function with that key", "/api/raw/x?do=echo", "c", 401},
		{"admin with the host's key", "/api/boss?do=echo", "h", 401},
		{"admin with the master key", "/api/boss?do=echo", "m", 200},
		{"disabled with the host's key", "/api/off?do=echo", "h", 404},
		{"disabled with the master key", "/api/off?do=echo", "m", 200},
		{"admin API without a key", "/admin/host/status", "", 401},
		{"admin API with the host's key", "/admin/host/status", "h", 401},
		{"admin API with the master key", "/admin/host/status", "m", 200},
	} {
		resp, _ := r.call(t, "GET", tt.path, nil, func(req *http.Request) {
			if tt.header != "" {
				req.Header.Set("X-Functions-Key", tt.header)
			}
		})
		if resp.StatusCode != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, resp.StatusCode, tt.want)
		}
	}
	if text := r.console.String(); strings.Contains(text, "code=") {
		t.Errorf("a key was written to the console:\n%s", text)
	}
}

// TestQueueFunction checks that a message that always fails is moved unchanged
// to the poison queue.
func TestQueueFunction(t *testing.T) {
	t.Parallel()
	queues := newQueues(t)
	r := start(t, plainApp(), Options{Queues: queues})
	queues.put(t, "jobs", base(`note:dear "you"`))
	r.await(t, `noted dear "you"`)
	queues.put(t, "jobs", base("status:500"))
	r.await(t, "moved to 'jobs-poison'")
	if got := queues.bodies("jobs-poison")[0]; got != base("status:500") {
		t.Errorf("poison: got %q, want the unchanged message", got)
	}
	if n := strings.Count(r.console.String(), "Executed 'Work' (Failed"); n != 5 {
		t.Errorf("failed runs: got %d, want 5", n)
	}

	// A text that is not UTF-8 never reaches the handler, and is moved likewise.
	executed := strings.Count(r.console.String(), "Executing 'Work'")
	queues.put(t, "jobs", base("\xff"))
	r.await(t, "moved to 'jobs-poison'", 2)
	if n := strings.Count(r.console.String(), "is not UTF-8"); n != 5 {
		t.Errorf("deliveries of a message that is not UTF-8: got %d, want 5", n)
	}
	if n := strings.Count(r.console.String(), "Executing 'Work'"); n != executed {
		t.Errorf("the handler got %d messages that are not UTF-8", n-executed)
	}
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	app := plainApp()
	app["Broken/function.json"] = `{"bindings":[]}`
	r := start(t, app, Options{Queues: newQueues(t)})
	for _, tt := range []struct {
		name, method, path, body string
		want                     int
		text                     string
	}{
		{"homepage", "GET", "/", "", 200, "local Functions host"},
		{"ping", "GET", "/admin/host/ping", "", 200, ""},
		{"ping by post", "POST", "/admin/host/ping", "", 200, ""},
		{"status", "GET", "/admin/host/status", "", 200, `"state":"Running"`},
		{"list", "GET", "/admin/functions", "", 200, `"name":"Tick"`},
		{"one function", "GET", "/admin/functions/raw", "", 200, `"invoke_url_template":"` + r.URL() + `/api/raw/{*rest}"`},
		{"status of a function", "GET", "/admin/functions/Work/status", "", 200, `"errors":[]`},
		{"status of a broken function", "GET", "/admin/functions/Broken/status", "", 200, "bindings must be a list"},
		{"status of no function", "GET", "/admin/functions/None/status", "", 404, ""},
		{"run", "POST", "/admin/functions/Work", `{"input":"note:via admin"}`, 202, ""},
		{"run a timer", "POST", "/admin/functions/Tick", `{}`, 202, ""},
		{"run without a body", "POST", "/admin/functions/Work", "", 400, "JSON object"},
		{"run with null", "POST", "/admin/functions/Work", "null", 400, "JSON object"},
		{"run with an input that is not a string", "POST", "/admin/functions/Work", `{"input":{}}`, 400, "JSON object"},
		{"run an HTTP function", "POST", "/admin/functions/Raw", `{"input":"note:by hand"}`, 202, ""},
		{"run no function", "POST", "/admin/functions/None", `{}`, 404, ""},
		{"run a broken function", "POST", "/admin/functions/Broken", `{}`, 404, ""},
		{"something else", "GET", "/admin/vfs", "", 404, ""},
		{"reserved", "GET", "/runtime/webhooks", "", 404, ""},
	} {
		resp, body := r.call(t, tt.method, tt.path, strings.NewReader(tt.body), asJSON)
		if resp.StatusCode != tt.want || !strings.Contains(body, tt.text) {
			t.Errorf("%s: got %d %s; want %d and %q", tt.name, resp.StatusCode, body, tt.want, tt.text)
		}
	}
	r.await(t, "noted via admin")
	r.await(t, "Executed 'Tick' (Succeeded")
	// An HTTP function is started and fails, because it has no request.
	r.await(t, "Executing 'Raw' (Reason='"+adminReason+"'")
	r.await(t, "Executed 'Raw' (Failed")
	if text := r.console.String(); strings.Contains(text, "noted by hand") {
		t.Errorf("the handler got a call of an HTTP function that was run by hand:\n%s", text)
	}

	for media, want := range map[string]int{"": 415, "text/plain": 415, "application/xml+jason": 415,
		"application/json; charset=utf-8": 202, "text/json": 202, "application/vnd.x+json": 202} {
		resp, _ := r.call(t, "POST", "/admin/functions/Work", strings.NewReader(`{}`), func(req *http.Request) {
			if media != "" {
				req.Header.Set("Content-Type", media)
			}
		})
		if resp.StatusCode != want {
			t.Errorf("run with the content type %q: got %d, want %d", media, resp.StatusCode, want)
		}
	}
	// The response to a run through the admin API does not wait for its end.
	if resp, body := r.call(t, "POST", "/admin/functions/work", strings.NewReader(`{"input":"hang:on"}`), asJSON); resp.StatusCode != 202 || body != "" {
		t.Errorf("long run: got %d %q, want 202 without a body", resp.StatusCode, body)
	}
	r.await(t, "hanging on")
	r.replace(t)
	r.await(t, "Executed 'Work' (Failed")
}

func asJSON(r *http.Request) { r.Header.Set("Content-Type", "application/json") }

func TestHandlerEnvironment(t *testing.T) {
	t.Parallel()
	root := write(t, rawApp())
	r := newHost(t, root, Options{Env: map[string]string{"OWN": "value"}})
	<-r.Ready()
	port := r.mustDo(t, "env:FUNCTIONS_CUSTOMHANDLER_PORT")
	for name, want := range map[string]string{
		"FUNCTIONS_HTTPWORKER_PORT":   port,
		"FUNCTIONS_HTTPWORKER_ID":     r.mustDo(t, "env:FUNCTIONS_CUSTOMHANDLER_WORKER_ID"),
		"FUNCTIONS_APP_ROOT_PATH":     root,
		"AzureWebJobsScriptRoot":      root,
		"AZURE_FUNCTIONS_ENVIRONMENT": "Development",
		"WEBSITE_HOSTNAME":            strings.TrimPrefix(r.URL(), "http://"),
		"OWN":                         "value",
	} {
		if got := r.mustDo(t, "env:"+name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestReports checks that the problems of each function are reported before the
// app starts.
func TestReports(t *testing.T) {
	app := plainApp()
	app["deep/down/function.json"] = `{}`
	app["Other/function.json"] = `{"bindings":[{"type":"httpTrigger","name":"req","route":"RAW/{*rest}","methods":["Post"]}]}`
	app["Sly/function.json"] = `{"bindings":[{"type":"httpTrigger","name":"req","route":"admin/x"}]}`
	app["Off/function.json"] = `{"bindings":[` + timerBinding + `]}`
	app["Again/function.json"] = retried(`{"type":"httpTrigger","name":"req"},`+httpOutput, 1, "00:00:00")
	app["Far/function.json"] = `{"bindings":[{"type":"queueTrigger","name":"m","queueName":"far","connection":"Elsewhere"}]}`
	out := newTranscript()
	env := map[string]string{"TZ": "Europe/Paris", "JOBS": "jobs", "AzureWebJobs.Off.Disabled": "1"}
	if _, err := New(write(t, app), listener(t), &Options{Executable: "/bin/sh", Console: out, Queues: newQueues(t), Env: env}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"deep/down/function.json IS IGNORED",
		`function 'Raw' is not loaded: the route "api/raw/{*rest}" conflicts with that of function Other`,
		`function 'Sly' is not loaded: route "admin/x" conflicts`,
		"Function 'Off' is disabled",
		"function 'Again' has a retry policy, which this local host ignores for forwarded requests",
		"function 'Far' uses the connection Elsewhere",
		"timers of this local host use UTC",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}

	out = newTranscript()
	if _, err := New(write(t, plainApp()), listener(t), &Options{Executable: "/bin/sh", Console: out, Env: env}); err != nil {
		t.Fatal(err)
	}
	if want := "function 'Work' is not loaded: no queue storage"; !strings.Contains(out.String(), want) {
		t.Errorf("the report without queues lacks %q:\n%s", want, out)
	}
}

// TestNoFunction checks that the handler is not needed without a function.
func TestNoFunction(t *testing.T) {
	t.Parallel()
	app := files{"host.json": handlerHostJSON, "functions/Deep/function.json": plainApp()["Raw/function.json"]}
	r := start(t, app, Options{Executable: "/does/not/exist", Env: map[string]string{"AzureWebJobsDisableHomepage": "true"}})
	for path, want := range map[string]int{"/": 204, "/api/raw/x": 404} { // the homepage is disabled
		if resp, _ := r.call(t, "GET", path, nil); resp.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, resp.StatusCode, want)
		}
	}
	if !strings.Contains(r.console.String(), "NO FUNCTION WAS FOUND") {
		t.Errorf("the console does not report that there is no function:\n%s", r.console)
	}
	r.end(t)
}

func TestNewProblems(t *testing.T) {
	const lacks = "this local host does not support "
	with := func(bindings string) files {
		return files{"host.json": handlerHostJSON, "F/function.json": `{"bindings":[` + bindings + `]}`}
	}
	for _, tt := range []struct {
		name, want string
		app        files
	}{
		{"no host.json", "host.json", files{}},
		{"no custom handler", "customHandler.description", files{"host.json": `{"version":"2.0"}`}},
		{"body limit", "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT", files{"host.json": handlerHostJSON}},
		// A feature that only the real host supports is an error.
		{"constraint", `function 'F': bindings[0]: route "orders/{id:int}": ` + lacks + `the constraint "int" of {id}`,
			with(`{"type":"httpTrigger","name":"req","route":"orders/{id:int}"}`)},
		{"trigger", `function 'F': bindings[0]: ` + lacks + `the binding type "serviceBusTrigger"`, with(`{"type":"serviceBusTrigger","name":"m"}`)},
		{"output", `function 'F': bindings[1]: ` + lacks + `the binding type "serviceBus"`,
			with(timerBinding + `,{"type":"serviceBus","direction":"out","name":"q","queueName":"q-q"}`)},
		{"return value", `function 'F': bindings[1]: ` + lacks + `the binding name $return`,
			with(httpBinding + `,{"type":"http","direction":"out","name":"$return"}`)},
	} {
		env := map[string]string{}
		if tt.name == "body limit" {
			env[tt.want] = "much"
		}
		root := write(t, tt.app)
		_, err := New(root, listener(t), &Options{Env: env})
		expectError(t, tt.name, err, tt.want)
		if strings.Contains(tt.want, lacks) { // CheckFunction checks for the real host
			expectError(t, tt.name, CheckFunction(filepath.Join(root, "F")), "")
		}
	}
}
