package localhost

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// files of an app for tests: by path below the root.
type files map[string]string

// handlerHostJSON has a functionTimeout that no test reaches.
const handlerHostJSON = `{"version":"2.0","functionTimeout":"00:10:00","customHandler":{
	"description":{"defaultExecutablePath":"handler"},"enableForwardingHttpRequest":true}}`

// plainApp has one function of each kind.
func plainApp() files {
	return files{
		"host.json":           handlerHostJSON,
		"Raw/function.json":   `{"bindings":[{"type":"httpTrigger","direction":"in","name":"req","route":"raw/{*rest}"},` + httpOutput + `]}`,
		"Still/function.json": `{"bindings":[` + httpBinding + `]}`,
		"Work/function.json":  `{"bindings":[{"type":"queueTrigger","direction":"in","name":"msg","queueName":"%JOBS%"}]}`,
		"Tick/function.json":  `{"bindings":[` + timerBinding + `]}`,
	}
}

// rawApp is one forwarded function; nothing else starts.
func rawApp() files {
	app := plainApp()
	return files{"host.json": app["host.json"], "Raw/function.json": app["Raw/function.json"]}
}

// withTimeout sets a functionTimeout that ends calls that hang. The other calls
// of a test take less, also on a busy machine.
func withTimeout(app files) files {
	app["host.json"] = strings.Replace(app["host.json"], `"00:10:00"`, `"00:00:03"`, 1)
	return app
}

// enveloped disables forwarding.
func enveloped(app files) files {
	app["host.json"] = strings.Replace(app["host.json"], "true", "false", 1)
	return app
}

func write(t *testing.T, app files) (root string) {
	t.Helper()
	root, tree := t.TempDir(), fstest.MapFS{}
	for name, text := range app {
		tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	if err := os.CopyFS(root, tree); err != nil {
		t.Fatal(err)
	}
	return root
}

// must returns the result of a call that is not under test. It panics on an
// error.
func must[T any](result T, err error) T {
	if err != nil {
		panic(err)
	}
	return result
}

// same expects equal values.
func same(t *testing.T, what string, got, want any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(got, want, options...); diff != "" {
		t.Errorf("%s (got -, want +):\n%s", what, diff)
	}
}

// expectError expects an error that contains text, or no error if text is
// empty.
func expectError(t *testing.T, what string, err error, text string) {
	t.Helper()
	if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got error %v, want %q", what, err, text)
	}
}

// transcript is a console that tests can wait on.
type transcript struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newTranscript() *transcript { return &transcript{changed: make(chan struct{})} }

func (c *transcript) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
	return c.text.Write(p)
}

// read returns what was written, and a channel that is closed when there is
// more.
func (c *transcript) read() (text string, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String(), c.changed
}

func (c *transcript) String() string {
	text, _ := c.read()
	return text
}

// A running host under test.
type running struct {
	*Host
	console *transcript
	stop    context.CancelFunc
	err     chan error    // gets Run's result
	done    chan struct{} // closed when Run has returned
}

// await waits until the console contains text n times, by default once. It
// fails if the host stops before that.
func (r *running) await(t *testing.T, want string, times ...int) {
	t.Helper()
	n := append(times, 1)[0]
	for stopped := false; ; {
		text, changed := r.console.read()
		if strings.Count(text, want) >= n {
			return
		}
		if stopped {
			t.Fatalf("the host stopped without writing %q %d times; it wrote:\n%s", want, n, text)
		}
		select {
		case <-changed:
		case <-r.done:
			stopped = true
		}
	}
}

// end stops the host and expects that Run returns nil.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.err; err != nil {
		t.Errorf("Run after a stop: got %v, want nil", err)
	}
}

// start runs a host for an app, with this binary as its handler, and stops it
// at the end of the test.
func start(t *testing.T, app files, opt Options) *running {
	t.Helper()
	r := newHost(t, write(t, app), opt)
	select {
	case <-r.Ready():
	case err := <-r.err:
		t.Fatalf("the host stopped: %v\n%s", err, r.console)
	}
	return r
}

// newHost is like start, but does not wait for the handler.
func newHost(t *testing.T, root string, opt Options) *running {
	t.Helper()
	r := &running{console: newTranscript(), err: make(chan error, 1), done: make(chan struct{})}
	env := map[string]string{
		childMode: "handler",
		"JOBS":    "jobs",
		// The race detector of the test binary must not delay the handler's
		// exit.
		"GORACE":     "atexit_sleep_ms=0",
		"GOCOVERDIR": t.TempDir(),
	}
	for name, value := range opt.Env {
		env[name] = value
	}
	opt.Env, opt.Console = env, r.console
	if opt.Executable == "" {
		opt.Executable = must(os.Executable())
	}
	r.Host = must(New(root, listener(t), &opt))
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() {
		defer close(r.done)
		r.err <- r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// listener listens on a free port until the end of the test.
func listener(t *testing.T) net.Listener {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { l.Close() })
	return l
}

// call sends a request to the host and returns the answer and its body.
func (r *running) call(t *testing.T, method, path string, body io.Reader, edit ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req := must(http.NewRequest(method, r.URL()+path, body))
	for _, e := range edit {
		e(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", method, path, err, r.console)
	}
	defer resp.Body.Close()
	return resp, string(must(io.ReadAll(resp.Body)))
}

// do makes the handler execute a command.
func (r *running) do(t *testing.T, command string) (status int, answer string) {
	t.Helper()
	resp, text := r.call(t, http.MethodGet, "/api/raw/x?do="+command, nil)
	return resp.StatusCode, text
}

// fails expects that a command ends with 500 and an empty body.
func (r *running) fails(t *testing.T, command string) {
	t.Helper()
	if status, answer := r.do(t, command); status != 500 || answer != "" {
		t.Errorf("%s: got %d %q, want 500 without a body", command, status, answer)
	}
}

// mustDo is do for a command that must succeed.
func (r *running) mustDo(t *testing.T, command string) string {
	t.Helper()
	status, answer := r.do(t, command)
	if status != http.StatusOK {
		t.Fatalf("%s: got status %d\n%s", command, status, r.console)
	}
	return answer
}

// listen runs a listener of a queue or timer until stop is called. stop returns
// when the listener has returned.
func listen(run func(ctx, work context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx, context.WithoutCancel(ctx))
	}()
	return func() { cancel(); <-done }
}

// listenFor runs a listener for a time.
func listenFor(run func(ctx, work context.Context), d time.Duration) {
	stop := listen(run)
	time.Sleep(d)
	stop()
}

// replace makes the host kill and restart the handler, as after a timeout.
func (r *running) replace(t *testing.T) {
	must(r.handler.acquire(t.Context())).replace()
}
