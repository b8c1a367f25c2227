package localhost

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/customhandler"
)

func TestForwardedCall(t *testing.T) {
	t.Parallel()
	r := start(t, write(t, plainApp()), Options{Queues: newFakeQueues()})
	tests := []struct {
		name, method, path, body string
		want                     int
		seen                     string // by the handler: method, path, body's length
	}{
		{"get", "GET", "/api/raw/a%20b?do=echo", "", 200, "GET /api/raw/a%20b?do=echo 0"},
		{"any method", "PATCH", "/api/raw/x?do=echo", "hello", 200, "PATCH /api/raw/x?do=echo 5"},
		{"any case", "GET", "/API/Raw/x?do=echo", "", 200, "GET /API/Raw/x?do=echo 0"},
		{"status passes", "GET", "/api/raw/x?do=status:418", "", 418, ""},
		{"path without the prefix", "GET", "/raw/x", "", 404, ""},
		{"no such function", "GET", "/api/nothing", "", 404, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			resp, body := r.call(t, test.method, test.path, strings.NewReader(test.body))
			if resp.StatusCode != test.want || resp.Header.Get("X-Seen") != test.seen {
				t.Errorf("got %d, seen %q; want %d, %q", resp.StatusCode, resp.Header.Get("X-Seen"), test.want, test.seen)
			}
			if test.want == 200 && body != test.body {
				t.Errorf("body: got %q, want %q", body, test.body)
			}
			if test.want == 404 && body != "" {
				t.Errorf("body of a 404: got %q, want none", body)
			}
		})
	}
}

func TestEnvelopeCall(t *testing.T) {
	t.Parallel()
	queues := newFakeQueues()
	app := plainApp()
	delete(app, "Work/function.json") // nothing takes from the queue
	r := start(t, write(t, app), Options{Queues: queues})

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
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &envelope); err != nil {
		t.Fatalf("the handler got %s: %v", body, err)
	}
	req := envelope.Data.Req
	if req.Method != "POST" || req.Body != `{"x":"y"}` || req.Query["a"] != "1,2" || req.Params["id"] != 7.0 {
		t.Errorf("the handler got %+v", req)
	}

	for _, test := range []struct {
		name, method, path string
		want               int
	}{
		{"optional parameter absent", "GET", "/api/wrap", 201},
		{"method not listed", "PUT", "/api/wrap/7", 404},
		{"rule of the route broken", "GET", "/api/wrap/seven", 404},
		{"no http output", "GET", "/api/still", 204},
		{"failed invocation", "GET", "/api/wrap?do=status:503", 500},
		{"empty answer", "GET", "/api/wrap?do=empty", 500},
	} {
		resp, body := r.call(t, test.method, test.path, nil)
		if resp.StatusCode != test.want {
			t.Errorf("%s: got %d, want %d", test.name, resp.StatusCode, test.want)
		}
		if test.want >= 400 && body != "" {
			t.Errorf("%s: got the body %q, want none", test.name, body)
		}
	}
	r.await(t, "Wrap: a log of /Wrap")

	if resp, _ := r.call(t, "GET", "/api/wrap?do=put:hello", nil); resp.StatusCode != 201 {
		t.Errorf("call with a queue output: got %d, want 201", resp.StatusCode)
	}
	if diff := cmp.Diff(queues.bodies("jobs"), []string{base("hello")}); diff != "" {
		t.Errorf("queue (got -, want +):\n%s", diff)
	}
	queues.fail = func(op, _ string) error {
		if op == "Put" {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	if resp, body := r.call(t, "GET", "/api/wrap?do=put:again", nil); resp.StatusCode != 500 || body != "" {
		t.Errorf("call whose queue output fails: got %d %q, want 500 without a body", resp.StatusCode, body)
	}
}

// With an empty prefix a function may take the homepage's place, but not that of /admin.
func TestEmptyPrefix(t *testing.T) {
	t.Parallel()
	app := files{
		"host.json":           strings.Replace(handlerHostJSON, `"version"`, `"extensions":{"http":{"routePrefix":""}},"version"`, 1),
		"Every/function.json": `{"bindings":[` + strings.Replace(httpBinding, `"name"`, `"route":"{*path}","name"`, 1) + `,` + httpOutput + `]}`,
	}
	r := start(t, write(t, app), Options{})
	if resp, body := r.call(t, "GET", "/", nil); resp.StatusCode != 200 || body != "" {
		t.Errorf("root: got %d %q, want the function's 200 without a body", resp.StatusCode, body)
	}
	if resp, body := r.call(t, "GET", "/admin/host/status", nil); resp.StatusCode != 200 || !strings.Contains(body, "Running") {
		t.Errorf("host status: got %d %q, want 200 and Running", resp.StatusCode, body)
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	r := start(t, write(t, plainApp()), Options{Env: map[string]string{"FUNCTIONS_REQUEST_BODY_SIZE_LIMIT": "10"}})
	if resp, _ := r.call(t, "POST", "/api/raw/x?do=echo", strings.NewReader("0123456789")); resp.StatusCode != 200 {
		t.Errorf("body of the limit: got %d, want 200", resp.StatusCode)
	}
	if resp, _ := r.call(t, "POST", "/api/raw/x?do=echo", strings.NewReader("0123456789+")); resp.StatusCode != 413 {
		t.Errorf("body over the limit: got %d, want 413", resp.StatusCode)
	}
	// Without a Content-Length the body is lost, whatever its size.
	resp, _ := r.call(t, "POST", "/api/raw/x?do=echo", io.MultiReader(strings.NewReader("0123456789+")))
	if seen := resp.Header.Get("X-Seen"); !strings.HasSuffix(seen, " 0") {
		t.Errorf("chunked body: the handler saw %q, want no body", seen)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	app := plainApp()
	level := func(level string) string {
		return `{"bindings":[{"type":"httpTrigger","name":"req","authLevel":"` + level + `"},{"type":"http","direction":"out","name":"res"}]}`
	}
	app["Open/function.json"], app["Boss/function.json"] = level("anonymous"), level("admin")
	app["Closed/function.json"], app["Off/function.json"] = level("function"), `{"disabled":true,`+level("function")[1:]
	r := start(t, write(t, app), Options{Keys: &Keys{Master: "m", Host: "h", Functions: map[string]string{"Closed": "c"}}})
	for _, test := range []struct {
		name, path, header string
		want               int
	}{
		{"anonymous without a key", "/api/open?do=echo", "", 200},
		{"function without a key", "/api/closed?do=echo", "", 401},
		{"function with a wrong key", "/api/closed?do=echo", "x", 401},
		{"function with its key", "/api/closed?do=echo", "c", 200},
		{"function with its key in the query", "/api/closed?do=echo&code=c", "", 200},
		{"the header wins over the query", "/api/closed?do=echo&code=c", "x", 401},
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
		resp, _ := r.call(t, "GET", test.path, nil, func(req *http.Request) {
			if test.header != "" {
				req.Header.Set("X-Functions-Key", test.header)
			}
		})
		if resp.StatusCode != test.want {
			t.Errorf("%s: got %d, want %d", test.name, resp.StatusCode, test.want)
		}
	}
	if text := r.console.String(); strings.Contains(text, "code=") {
		t.Errorf("a key was written to the console:\n%s", text)
	}
}

// From an HTTP call over a queue to another queue.
func TestQueueFunction(t *testing.T) {
	t.Parallel()
	queues := newFakeQueues()
	r := start(t, write(t, plainApp()), Options{Queues: queues})
	if resp, _ := r.call(t, "GET", "/api/wrap?do=put:put:dear+\"you\"", nil); resp.StatusCode != 201 {
		t.Fatalf("put a message: got %d, want 201", resp.StatusCode)
	}
	if err := queues.awaitLength(t.Context(), "results", 1); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(queues.bodies("results"), []string{base(`dear "you"`)}); diff != "" {
		t.Errorf("results (got -, want +):\n%s", diff)
	}
	if err := queues.awaitLength(t.Context(), "jobs", 0); err != nil {
		t.Fatal(err)
	}

	// One that always fails ends in the poison queue, as it was.
	if err := queues.Put(t.Context(), "jobs", base("status:500")); err != nil {
		t.Fatal(err)
	}
	if err := queues.awaitLength(t.Context(), "jobs-poison", 1); err != nil {
		t.Fatal(err)
	}
	if got := queues.bodies("jobs-poison")[0]; got != base("status:500") {
		t.Errorf("poison: got %q, want the message as it was", got)
	}
	if n := strings.Count(r.console.String(), "Executed 'Work' (Failed"); n != 5 {
		t.Errorf("failed runs: got %d, want 5", n)
	}
}

// An output to a queue wakes the function that listens to it, so that it need not wait for its next poll.
func TestOutputWakesListener(t *testing.T) {
	h, err := New(write(t, plainApp()), &Options{Executable: "/bin/sh", Queues: newFakeQueues()})
	if err != nil {
		t.Fatal(err)
	}
	answer := customhandler.Answer{Outputs: map[string]json.RawMessage{"out": json.RawMessage(`["a","b"]`)}}
	for _, test := range []struct {
		function string
		want     int
	}{{"Work", 0}, {"Wrap", 1}} { // to the queue results, to the queue jobs
		if err := h.deliver(t.Context(), h.function(test.function), answer); err != nil {
			t.Fatal(err)
		}
		if got := len(h.listeners[0].wake); got != test.want {
			t.Errorf("wake-ups after an output of %s: got %d, want %d", test.function, got, test.want)
		}
	}
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	queues := newFakeQueues()
	app := plainApp()
	app["Broken/function.json"] = `{"bindings":[]}`
	r := start(t, write(t, app), Options{Queues: queues})
	for _, test := range []struct {
		name, method, path, body string
		want                     int
		says                     string
	}{
		{"homepage", "GET", "/", "", 200, "local Functions host"},
		{"ping", "GET", "/admin/host/ping", "", 200, ""},
		{"ping by post", "POST", "/admin/host/ping", "", 200, ""},
		{"status", "GET", "/admin/host/status", "", 200, `"state":"Running"`},
		{"list", "GET", "/admin/functions", "", 200, `"name":"Tick"`},
		{"one function", "GET", "/admin/functions/wrap", "", 200, `"invoke_url_template":"` + r.URL() + `/api/wrap/{id:int?}"`},
		{"status of a function", "GET", "/admin/functions/Work/status", "", 200, `"errors":[]`},
		{"status of a broken function", "GET", "/admin/functions/Broken/status", "", 200, "bindings must be a list"},
		{"status of no function", "GET", "/admin/functions/None/status", "", 404, ""},
		{"run", "POST", "/admin/functions/Work", `{"input":"put:by hand"}`, 202, ""},
		{"run a timer", "POST", "/admin/functions/Tick", `{}`, 202, ""},
		{"run without a body", "POST", "/admin/functions/Work", "", 400, "JSON object"},
		{"run with null", "POST", "/admin/functions/Work", "null", 400, "JSON object"},
		{"run with an input that is no text", "POST", "/admin/functions/Work", `{"input":{}}`, 400, "JSON object"},
		{"run an HTTP function", "POST", "/admin/functions/Wrap", `{}`, 400, "call its route"},
		{"run no function", "POST", "/admin/functions/None", `{}`, 404, ""},
		{"run a broken function", "POST", "/admin/functions/Broken", `{}`, 404, ""},
		{"something else", "GET", "/admin/vfs", "", 404, ""},
		{"reserved", "GET", "/runtime/webhooks", "", 404, ""},
	} {
		resp, body := r.call(t, test.method, test.path, strings.NewReader(test.body))
		if resp.StatusCode != test.want || !strings.Contains(body, test.says) {
			t.Errorf("%s: got %d %s; want %d and %q", test.name, resp.StatusCode, body, test.want, test.says)
		}
	}
	if err := queues.awaitLength(t.Context(), "results", 1); err != nil {
		t.Fatal(err)
	}
	r.await(t, "Executed 'Tick' (Succeeded")
}

// A run by hand is answered at once, however long it takes.
func TestAdminRunsInBackground(t *testing.T) {
	t.Parallel()
	r := start(t, write(t, patient(plainApp())), Options{Queues: newFakeQueues()})
	resp, body := r.call(t, "POST", "/admin/functions/work", strings.NewReader(`{"input":"hang:on"}`))
	if resp.StatusCode != 202 || body != "" {
		t.Errorf("run: got %d %q, want 202 without a body", resp.StatusCode, body)
	}
	r.await(t, "hanging on")
	r.replace(t)
	r.await(t, "Executed 'Work' (Failed")
}

func TestHandlerEnvironment(t *testing.T) {
	t.Parallel()
	root := write(t, plainApp())
	r := start(t, root, Options{})
	port := r.mustDo(t, "env:FUNCTIONS_CUSTOMHANDLER_PORT")
	for name, want := range map[string]string{
		"FUNCTIONS_HTTPWORKER_PORT":   port,
		"FUNCTIONS_HTTPWORKER_ID":     r.mustDo(t, "env:FUNCTIONS_CUSTOMHANDLER_WORKER_ID"),
		"FUNCTIONS_APP_ROOT_PATH":     root,
		"AzureWebJobsScriptRoot":      root,
		"AZURE_FUNCTIONS_ENVIRONMENT": "Development",
		"WEBSITE_HOSTNAME":            r.Addr(),
		"FROM_FILE":                   "file",
		"FROM_BOTH":                   "environment",
	} {
		if got := r.mustDo(t, "env:"+name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// What is wrong with an app is said before it starts, function by function.
func TestReports(t *testing.T) {
	t.Parallel()
	app := plainApp()
	app["deep/down/function.json"] = `{}`
	app["Bus/function.json"] = `{"bindings":[{"type":"serviceBusTrigger","name":"msg"}]}`
	app["Other/function.json"] = `{"bindings":[{"type":"httpTrigger","name":"req","route":"WRAP/{id:int?}","methods":["Post"]}]}`
	app["Sly/function.json"] = `{"bindings":[{"type":"httpTrigger","name":"req","route":"admin/x"}]}`
	app["Off/function.json"] = `{"disabled":true,"retry":{"strategy":"fixedDelay"},"bindings":[` + timerBinding + `]}`
	app["Far/function.json"] = `{"bindings":[{"type":"queueTrigger","name":"m","queueName":"far","connection":"Elsewhere"}]}`
	out := newTranscript()
	if _, err := New(write(t, app), &Options{Executable: "/bin/sh", Console: out, Queues: newFakeQueues(), Env: map[string]string{"TZ": "Europe/Paris"}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"deep/down/function.json IS NOT SEEN",
		"run 'Bus' with POST /admin/functions/Bus",
		`function 'Wrap' is left out: the route "api/wrap/{id:int?}" conflicts with that of function Other`,
		`function 'Sly' is left out: route "admin/x" conflicts`,
		"Function 'Off' is disabled",
		"function 'Off' has a retry policy",
		"function 'Far' names the connection Elsewhere",
		"timers of this local host go by UTC",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}

	out = newTranscript()
	if _, err := New(write(t, plainApp()), &Options{Executable: "/bin/sh", Console: out}); err != nil {
		t.Fatal(err)
	}
	if want := "function 'Work' is left out: there is no queue storage"; !strings.Contains(out.String(), want) {
		t.Errorf("the report without queues lacks %q:\n%s", want, out)
	}
}

// Without a function, the handler is not even looked for.
func TestNoFunction(t *testing.T) {
	t.Parallel()
	app := files{"host.json": handlerHostJSON, "functions/Deep/function.json": plainApp()["Raw/function.json"]}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, write(t, app), Options{Executable: "/does/not/exist", Listener: listener, Env: map[string]string{"AzureWebJobsDisableHomepage": "true"}})
	if want := "http://" + listener.Addr().String(); r.URL() != want {
		t.Errorf("URL: got %s, want %s", r.URL(), want)
	}
	if resp, _ := r.call(t, "GET", "/", nil); resp.StatusCode != 204 {
		t.Errorf("homepage switched off: got %d, want 204", resp.StatusCode)
	}
	if !strings.Contains(r.console.String(), "NO FUNCTION WAS FOUND") {
		t.Errorf("the console does not say that there is no function:\n%s", r.console)
	}
	if resp, _ := r.call(t, "GET", "/api/raw/x", nil); resp.StatusCode != 404 {
		t.Errorf("call: got %d, want 404", resp.StatusCode)
	}
	r.stop()
	if err := <-r.err; err != nil {
		t.Errorf("Run after a stop: got %v, want nil", err)
	}
}

func TestNewProblems(t *testing.T) {
	for _, test := range []struct {
		name, want string
		app        files
		env        map[string]string
	}{
		{"no host.json", "host.json", files{}, nil},
		{"no custom handler", "customHandler.description", files{"host.json": `{"version":"2.0"}`}, nil},
		{"settings", "IsEncrypted", files{"host.json": handlerHostJSON, "local.settings.json": `{}`}, nil},
		{"body limit", "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT", files{"host.json": handlerHostJSON}, map[string]string{"FUNCTIONS_REQUEST_BODY_SIZE_LIMIT": "much"}},
	} {
		if _, err := New(write(t, test.app), &Options{Env: test.env}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
	}
}
