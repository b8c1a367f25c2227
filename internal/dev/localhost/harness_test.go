package localhost

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// files of an app for tests: by path below the root.
type files map[string]string

const handlerHostJSON = `{"version":"2.0","functionTimeout":"00:00:01","customHandler":{
	"description":{"defaultExecutablePath":"handler"},"enableForwardingHttpRequest":true}}`

// plainApp has one function of each kind.
func plainApp() files {
	return files{
		"host.json":           handlerHostJSON,
		"Raw/function.json":   `{"bindings":[{"type":"httpTrigger","direction":"in","name":"req","route":"raw/{*rest}"},{"type":"http","direction":"out","name":"res"}]}`,
		"Wrap/function.json":  `{"bindings":[{"type":"httpTrigger","direction":"in","name":"req","route":"wrap/{id:int?}","methods":["get","post"]},{"type":"http","direction":"out","name":"res"},{"type":"queue","direction":"out","name":"out","queueName":"jobs"}]}`,
		"Still/function.json": `{"bindings":[{"type":"httpTrigger","direction":"in","name":"req"}]}`,
		"Work/function.json":  `{"bindings":[{"type":"queueTrigger","direction":"in","name":"msg","queueName":"%JOBS%"},{"type":"queue","direction":"out","name":"out","queueName":"results"}]}`,
		"Tick/function.json":  `{"bindings":[{"type":"timerTrigger","direction":"in","name":"tick","schedule":"0 0 0 1 1 *"}]}`,
		"local.settings.json": `{"IsEncrypted":false,"Values":{"FUNCTIONS_WORKER_RUNTIME":"custom","JOBS":"jobs","FROM_FILE":"file","FROM_BOTH":"file"}}`,
	}
}

func write(t *testing.T, app files) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range app {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
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

// read returns what has been written, and a channel that is closed when there is more.
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

// await returns when the console has said something, however long that takes; a host that has stopped says
// nothing more.
func (r *running) await(t *testing.T, want string) {
	t.Helper()
	r.awaitTimes(t, want, 1)
}

// awaitTimes is await for something that is said several times.
func (r *running) awaitTimes(t *testing.T, want string, times int) {
	t.Helper()
	for stopped := false; ; {
		text, changed := r.console.read()
		if strings.Count(text, want) >= times {
			return
		}
		if stopped {
			t.Fatalf("the host stopped without saying %q %d times; it said:\n%s", want, times, text)
		}
		select {
		case <-changed:
		case <-r.done:
			stopped = true
		}
	}
}

// start runs a host over an app, with this binary as its handler, and stops it at the end of the test.
func start(t *testing.T, root string, opt Options) *running {
	t.Helper()
	r := newHost(t, root, opt)
	select {
	case <-r.Ready():
	case err := <-r.err:
		t.Fatalf("the host stopped: %v\n%s", err, r.console)
	}
	return r
}

// newHost is start without waiting for the handler.
func newHost(t *testing.T, root string, opt Options) *running {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{console: newTranscript(), err: make(chan error, 1), done: make(chan struct{})}
	env := map[string]string{
		childMode:   "handler",
		"FROM_BOTH": "environment",
		// What the test binary would do at its exit is no business of a handler.
		"GORACE":     "atexit_sleep_ms=0",
		"GOCOVERDIR": t.TempDir(),
	}
	for name, value := range opt.Env {
		env[name] = value
	}
	opt.Env, opt.Console, opt.Addr = env, r.console, "127.0.0.1:0"
	if opt.Executable == "" {
		opt.Executable = self
	}
	if r.Host, err = New(root, &opt); err != nil {
		t.Fatal(err)
	}
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

// call sends a request to the host and returns the status and the body.
func (r *running) call(t *testing.T, method, path string, body io.Reader, edit ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, r.URL()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edit {
		e(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", method, path, err, r.console)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// do has the handler obey a command.
func (r *running) do(t *testing.T, command string) (status int, answer string) {
	t.Helper()
	resp, text := r.call(t, http.MethodGet, "/api/raw/x?do="+command, nil)
	return resp.StatusCode, text
}
