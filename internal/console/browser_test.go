package console_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"go.yaml.in/yaml/v3"

	"kennel/docs"
	"kennel/internal/dev/browser"
	"kennel/internal/dev/localhost"
	"kennel/internal/dev/project"
	devrun "kennel/internal/dev/run"
	"kennel/internal/names"
	"kennel/internal/principal"
	"kennel/internal/storetest"
	"kennel/queue"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// hostile is in every field that a client can set. If a page took it for
// elements, it would have an image without a source, and a script would run.
const hostile = `<img src=x onerror="alert(1)">`

// strange are texts that a page could also take for elements or for code.
var strange = []string{hostile, `'><svg onload='alert(2)'>`, "javascript:alert(3)"}

// TestBrowser uses the page in Chromium as people do, through the local host,
// and with the roles that the platform would report: every action of every
// view, and what a Reader must not do.
func TestBrowser(t *testing.T) {
	storetest.OnlyInProve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	suite := installSuite(t, ctx)
	app := startApp(t)
	seed(t, app)
	shop := startProgram(t, "examples/starter")
	pages, err := filepath.Abs("page")
	check(t, err)
	environment := []string{"STRANGE=" + text(t, strange), "PAGE=" + pages, "OPERATOR=" + signedIn(t, app.URL, "ann "+hostile, "Operator"), "SHOP=" + signedIn(t, shop.URL, "ann "+hostile, "Operator"), "READER=" + signedIn(t, app.URL, "bob", "Reader"), "STRANGER=" + app.URL}
	suite.run(t, ctx, environment, "--test-reporter=spec", "suite.mjs")

	for _, reason := range []string{"taken over", "maintenance", "mended", "not needed", "Monday"} {
		if !app.logged("change through the console", "ann "+hostile, reason+" "+hostile) {
			t.Errorf("the log has no change by ann with the reason %s", reason)
		}
	}
	if !shop.logged("change through the console", "ann "+hostile, "the numbers "+hostile) {
		t.Error("the log has no run of the timer by ann")
	}
	if !shop.contains("customer=ann item=" + strconv.Quote(hostile)) {
		t.Error("the log has no order that was sent")
	}
}

// suite is the tests in the folder browser, which Node.js runs.
type suite struct{ scripts *browser.Scripts }

func installSuite(t *testing.T, ctx context.Context) suite {
	t.Helper()
	scripts, err := browser.Install(ctx, os.Environ(), "browser", t.TempDir())
	check(t, err)
	return suite{scripts}
}

func (s suite) run(t *testing.T, ctx context.Context, environment []string, args ...string) {
	t.Helper()
	out, err := s.scripts.Run(ctx, append(environment, "HOSTILE="+hostile, "OPENAPI="+description(t)), args...)
	check(t, err)
	t.Logf("%s", out)
}

// description returns a file with the description of the API as JSON.
func description(t *testing.T) string {
	t.Helper()
	var described any
	check(t, yaml.Unmarshal(docs.OpenAPI, &described))
	name := filepath.Join(t.TempDir(), "openapi.json")
	check(t, os.WriteFile(name, []byte(text(t, described)), 0o644))
	return name
}

// text returns a value as JSON.
func text(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	check(t, err)
	return string(text)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// app is a running app, with what it logs.
type app struct {
	devrun.Event // ready

	mu  sync.Mutex
	log bytes.Buffer // guarded by mu
}

func (a *app) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.log.Write(p)
}

// logged reports whether a line of the log has all of these values.
func (a *app) logged(values ...string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for line := range strings.Lines(a.log.String()) {
		found := 0
		for _, value := range values {
			quoted, _ := json.Marshal(value) // a string
			plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(quoted))
			if strings.Contains(line, plain) || strings.Contains(line, string(quoted)) {
				found++
			}
		}
		if found == len(values) {
			return true
		}
	}
	return false
}

// contains reports whether the log has a text.
func (a *app) contains(text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Contains(a.log.String(), text)
}

// startApp starts the app as `kennel up` does, with settings that the platform
// has where it signs people in.
func startApp(t *testing.T, settings ...string) *app {
	t.Helper()
	return startProgram(t, "handler", settings...)
}

// startProgram is startApp for a program of this module.
func startProgram(t *testing.T, program string, settings ...string) *app {
	t.Helper()
	handler, err := storetest.Build(program)
	check(t, err)
	root := t.TempDir()
	repository := filepath.Join("..", "..")
	functions := repository
	if program != "handler" {
		functions = filepath.Join(repository, filepath.FromSlash(program))
		check(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module kennel/"+program+"\n"), 0o644)) // names what the handler is built from
		check(t, os.WriteFile(filepath.Join(root, "main.go"), []byte("package main\n"), 0o644))
	}
	check(t, os.CopyFS(filepath.Join(root, "functions"), os.DirFS(filepath.Join(functions, "functions"))))
	text, err := os.ReadFile(filepath.Join(repository, "host.json"))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(root, "host.json"), text, 0o644))
	p, err := project.Open(root, localhost.CheckFunction)
	check(t, err)

	a := &app{}
	ready := make(chan devrun.Event, 1)
	environment := map[string]string{"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "WEBSITE_AUTH_ENABLED": "true", "WEBSITE_SITE_NAME": "kennel"}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		environment[name] = value
	}
	local, err := devrun.New(p, environment, &devrun.Options{Handler: handler, Log: a, Report: func(e devrun.Event) error {
		if e.Event == "ready" {
			ready <- e
		}
		return nil
	}})
	check(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- local.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil || t.Failed() {
			text := a.log.Bytes()
			t.Logf("the app ended: %v; the end of its log:\n%s", err, text[max(0, len(text)-4000):])
		}
	})
	select {
	case a.Event = <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("the app did not start: %v", err)
	}
	return a
}

// signedIn returns the address of a server that does what the platform does for
// a person whom it has signed in: it adds the header that names the person.
func signedIn(t *testing.T, app, name string, roles ...string) string {
	t.Helper()
	type claim struct {
		Type  string `json:"typ"`
		Value string `json:"val"`
	}
	claims := []claim{{"name", name}}
	for _, role := range roles {
		claims = append(claims, claim{"roles", role})
	}
	text, err := json.Marshal(map[string]any{"auth_typ": "aad", "name_typ": "name", "role_typ": "roles", "claims": claims})
	check(t, err)
	target, err := url.Parse(app)
	check(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.Header.Set(principal.Header, base64.StdEncoding.EncodeToString(text))
	}})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// seed gives the app something to show.
func seed(t *testing.T, a *app) {
	t.Helper()
	call := func(method, path string, body any) {
		t.Helper()
		var content io.Reader
		if body != nil {
			text, err := json.Marshal(body)
			check(t, err)
			content = bytes.NewReader(text)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, a.URL+"/api/"+path, content)
		check(t, err)
		if body != nil {
			r.Header.Set("Content-Type", "application/json")
		}
		answer, err := http.DefaultClient.Do(r)
		check(t, err)
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode >= 300 {
			t.Fatalf("%s %s: %s %s %v", method, path, answer.Status, text, err)
		}
	}
	call("POST", "sequences/orders/next?count=5", nil)
	call("POST", "gates/hounds/release", map[string]string{"by": "ann " + hostile, "reason": "warm " + hostile})
	for channel, blogs := range map[string]int{"news": 130, "old " + hostile: 3} {
		channel = url.PathEscape(channel)
		call("PUT", "channels/"+channel, map[string]string{"owner": "ann " + hostile})
		for i := range blogs {
			call("POST", "channels/"+channel+"/blogs", map[string]string{
				"title": fmt.Sprintf("Title %d %s", i, hostile), "text": "First line " + hostile + "\nSecond line " + hostile, "userId": "ann " + hostile,
			})
		}
	}

	blobs, err := azblob.NewClientFromConnectionString(a.Connection, nil)
	check(t, err)
	_, err = blobs.UploadBuffer(t.Context(), names.GatesContainer, "broken", []byte(hostile), nil) // is no state of a gate
	check(t, err)

	service, err := azqueue.NewServiceClientFromConnectionString(a.Connection, nil)
	check(t, err)
	letters := func(source string, count int, text func(i int) string) {
		t.Helper()
		for _, name := range []string{source, source + queue.PoisonSuffix} {
			_, _ = service.NewQueueClient(name).Create(t.Context(), nil) // may exist
		}
		for i := range count {
			_, err := service.NewQueueClient(source+queue.PoisonSuffix).EnqueueMessage(t.Context(), base64.StdEncoding.EncodeToString([]byte(text(i))), nil)
			check(t, err)
		}
	}
	reasons := []string{"the webhook answered %d " + hostile, "storage answered 403, request 7cbb1f6e-%04d"}
	letter := func(source string) func(i int) string {
		body, err := json.Marshal(map[string]string{"customer": hostile})
		check(t, err)
		return func(i int) string {
			return queue.DeadLetter{Queue: source, Message: fmt.Sprint(i), Reason: fmt.Sprintf(reasons[i%len(reasons)], i), Attempts: 3, At: time.Now(), Text: string(body)}.Encode()
		}
	}
	letters("returns", 40, letter("returns")) // no function receives from it
	letters("delete-channel-and-blogs", 3, letter("delete-channel-and-blogs"))
	letters("strange", 2*len(strange), func(i int) string {
		s := strange[i/2]
		if i%2 == 1 {
			return s // as it was
		}
		return queue.DeadLetter{Queue: "strange", Message: s, Reason: s, At: time.Now(), Text: text(t, map[string]string{"customer": s, "traceparent": s})}.Encode()
	})
	letters("orders", 4, func(int) string { return "\x89PNG\r\n\x1a\n\xff " + hostile })
}
