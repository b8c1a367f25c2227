package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kennel/gate"
	"kennel/internal/apptest"
	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/internal/storetest"
)

// built holds the real programs, each built when a test first needs it.
var built = struct{ handler, shippedHandler, shippedBare func() (string, error) }{
	handler:        func() (string, error) { return storetest.Build("handler") },
	shippedHandler: func() (string, error) { return storetest.BuildShipped("handler") }, // as `make build`
	shippedBare:    func() (string, error) { return storetest.BuildShipped("handler/testdata/bare") },
}

func TestMain(m *testing.M) { os.Exit(storetest.Main(suite{m})) }

// suite stops the shared process after the tests.
type suite struct{ *testing.M }

func (s suite) Run() int {
	defer func() {
		if common.p != nil {
			common.p.kill()
		}
	}()
	return s.M.Run()
}

var common struct {
	once sync.Once
	p    *process
}

// shared returns a handler on storage that all tests share which need nothing
// special of it.
func shared(t testing.TB) *process {
	t.Helper()
	common.once.Do(func() { common.p = launch(t, built.handler, withStorage(t)) })
	if common.p == nil {
		t.Fatal("the shared handler did not start")
	}
	common.p.ready(t)
	return common.p
}

// process is a running program that listens on the port that it was given.
type process struct {
	url    string
	port   int
	cmd    *exec.Cmd
	output *apptest.Buffer
}

// start runs a program until the test ends, and waits for its first answer.
func start(t testing.TB, program func() (string, error), env ...string) *process {
	t.Helper()
	p := launch(t, program, env...)
	p.stopAfter(t)
	p.ready(t)
	return p
}

// launch runs a program on a free port.
func launch(t testing.TB, program func() (string, error), env ...string) *process {
	t.Helper()
	return launchWith(t, program, freePort(t), nil, env...)
}

// launchWith runs a program with arguments.
func launchWith(t testing.TB, program func() (string, error), port int, args []string, env ...string) *process {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{port: port, output: &apptest.Buffer{}, cmd: exec.Command(path, args...)}
	p.url = "http://127.0.0.1:" + strconv.Itoa(p.port)
	p.cmd.Env = append([]string{
		"FUNCTIONS_CUSTOMHANDLER_PORT=" + strconv.Itoa(p.port),
		"GORACE=atexit_sleep_ms=0", // the race detector sleeps for a second before it ends
	}, env...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

func (p *process) stopAfter(t testing.TB) {
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("output of the process:\n%s", p.output)
		}
	})
}

// ready waits until the process gives its first answer.
func (p *process) ready(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		conn, err := net.Dial("tcp4", "127.0.0.1:"+strconv.Itoa(p.port))
		if err == nil {
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
			answer, err := io.ReadAll(conn)
			conn.Close()
			if err == nil && bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
				return
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("the process never answered: %v\n%s", err, p.output)
		}
		time.Sleep(200 * time.Microsecond) // as the host does
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := storetest.Port()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// call makes one request and returns status, headers and body. It checks that
// docs/openapi.yaml describes them.
func (p *process) call(t testing.TB, method, path string, body io.Reader, header ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if method == "POST" && strings.LastIndex(path, "/") == 0 { // as the host calls a function
		r.ContentLength, r.Header["Content-Type"] = -1, []string{"application/json; charset=utf-8"}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	apptest.CheckDescribed(t, r, apptest.BodyOf(r), answer.StatusCode, answer.Header, string(text))
	return answer.StatusCode, answer.Header, string(text)
}

// answer is what a caller may read in an answer of any function.
type answer struct {
	// Of gates.
	Gate               string
	Released           bool
	Generation         int64
	Releases           int64
	ChangedAt          time.Time
	By, Reason         string
	Changed, Signalled *bool
	History            []gate.Transition

	// Of channels, blogs and deletions.
	Channel, Owner, Incarnation, ETag string
	Blog, Title, Text, UserID, State  string
	Deleted                           int64
	CreatedAt, StartedAt, FinishedAt  time.Time
	Items                             []answer
	LeftOut                           int
	Continuation                      string

	Error  struct{ Code, Message string }
	status int
	header http.Header
	body   string
}

// gate calls an address below a gate's; body "" sends none.
func (p *process) gate(t testing.TB, method, path, body string, header ...string) (a answer) {
	t.Helper()
	a.status, a.header, a.body = p.request(t, method, "/api/gates/"+path, body, &a, header...)
	return a
}

// channels calls an address below /api/channels; body "" sends none.
func (p *process) channels(t testing.TB, method, path, body string, header ...string) (a answer) {
	t.Helper()
	a.status, a.header, a.body = p.request(t, method, "/api/channels"+path, body, &a, header...)
	return a
}

// expect checks status and, for an error, code.
func (a answer) expect(t testing.TB, what string, status int, code string) {
	t.Helper()
	if a.status != status || a.Error.Code != code || code != "" && a.Error.Message == "" {
		t.Errorf("%s: %d %.300s, want %d %s", what, a.status, a.body, status, code)
	}
}

// expectGate checks status and state. The generation of a gate with a release
// is the time of the last one, by the store's clock.
func (a answer) expectGate(t testing.TB, what string, status int, released bool, releases int64) {
	t.Helper()
	if a.status != status || a.Released != released || a.Releases != releases {
		t.Errorf("%s: %d %s, want %d with released %t, releases %d", what, a.status, a.body, status, released, releases)
	}
	if off := time.Since(time.UnixMilli(a.Generation)).Abs(); releases > 0 && off > time.Minute || releases == 0 && a.Generation != 0 {
		t.Errorf("%s: generation %d, want about %d", what, a.Generation, time.Now().UnixMilli())
	}
}

// request makes a call, with a JSON body unless that is "", and decodes the
// JSON answer, which must have no unknown members.
func (p *process) request(t testing.TB, method, path, body string, answer any, header ...string) (int, http.Header, string) {
	t.Helper()
	if body != "" {
		header = append([]string{"Content-Type", "application/json"}, header...)
	}
	status, got, text := p.call(t, method, path, strings.NewReader(body), header...)
	if status == http.StatusNoContent {
		if text != "" {
			t.Errorf("%s %s: 204 with %q", method, path, text)
		}
		return status, got, text
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(answer); err != nil || got.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s: answer %.300q of type %q: %v", method, path, text, got.Get("Content-Type"), err)
	}
	return status, got, text
}

// status returns the status, decoded and as text.
func (p *process) status(t testing.TB) (answer observe.Status, body string) {
	t.Helper()
	_, _, body = p.request(t, "GET", "/api/status", "", &answer)
	return answer, body
}

// statusUntil waits until the status is as wanted.
func (p *process) statusUntil(t testing.TB, what string, wanted func(observe.Status) bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		answer, body := p.status(t)
		if wanted(answer) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("status %s, want %s", body, what)
		}
	}
}

// ownProblems returns the problems of the process that answered. Other processes of the
// tests use the same storage, and may have some; the dead letters of all tests
// are in one queue.
func ownProblems(s observe.Status) []observe.ProblemItem {
	return slices.DeleteFunc(slices.Clone(s.Problems), func(p observe.ProblemItem) bool {
		return !slices.Contains(p.Instances, s.Instance) || p.Code == instances.DeadLetters
	})
}

// holds waits until a gate of this process has a number of waiters.
func (p *process) holds(t testing.TB, name string, waiters int) {
	t.Helper()
	p.statusUntil(t, fmt.Sprintf("%d waiters at %s", waiters, name), func(s observe.Status) bool { return s.Gates[name].Waiting == waiters })
}

// receives waits until the process receives signals, or until it does not.
func (p *process) receives(t testing.TB, want bool) {
	t.Helper()
	p.statusUntil(t, fmt.Sprint("receives signals: ", want), func(s observe.Status) bool { return s.Signals.Receiving == want })
}

// oneTry leaves an invocation no time to wait for storage, see outlast.
const oneTry = "KENNEL_INVOCATION_TIMEOUT=1m"

// invoke calls a function as the host does.
func (p *process) invoke(t testing.TB, function string, e customhandler.Envelope) error {
	_, err := customhandler.NewClient(p.url).Invoke(t.Context(), function, e)
	return err
}

func cleanupOf(m customhandler.QueueMessage) customhandler.Envelope {
	return customhandler.Trigger{Function: "ChannelCleanup", Binding: "message"}.Queue(m)
}

func sweepNow() customhandler.Envelope {
	return customhandler.Trigger{Function: "ChannelSweep", Binding: "tick"}.Timer(customhandler.Tick{})
}

func withStorage(t testing.TB) string {
	return "AzureWebJobsStorage=" + storetest.Storage(t).ConnectionString()
}

// exitCode waits for the process to end by itself.
func (p *process) exitCode(t testing.TB) int {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	select {
	case err := <-done:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		t.Fatal("the process does not end")
		return 0
	}
}

func (p *process) terminate() { p.cmd.Process.Signal(syscall.SIGTERM) }
