package main

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kennel/channels"
	"kennel/internal/app"
	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/edge"
	"kennel/internal/faultproxy"
	"kennel/internal/names"
	"kennel/internal/storetest"
	"kennel/internal/worker"
	"kennel/queue"
)

// workerProcess is the real program as a worker.
type workerProcess struct{ *process }

// launchWorker runs a worker until the test ends.
func launchWorker(t testing.TB, env ...string) workerProcess {
	t.Helper()
	return launchProgramWorker(t, built.handler, env...)
}

func launchProgramWorker(t testing.TB, program func() (string, error), env ...string) workerProcess {
	t.Helper()
	port := freePort(t)
	w := workerProcess{launchWith(t, program, port, []string{"worker", "--listen", "127.0.0.1:" + strconv.Itoa(port)}, env...)}
	w.stopAfter(t)
	return w
}

// probe returns the answer of an address of the probes, or 0 without one.
func (w workerProcess) probe(t testing.TB, path string) (status int, body string) {
	r, err := http.NewRequestWithContext(t.Context(), "GET", w.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// ready waits until the worker is ready.
func (w workerProcess) ready(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		status, body := w.probe(t, "/readyz")
		if status == 200 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("readyz: %d %s\n%s", status, body, w.output)
		}
	}
}

// TestWorker runs the real worker beside the app on one queue: it carries out
// deletions, moves what it cannot read, and ends in order.
func TestWorker(t *testing.T) {
	t.Parallel()
	connection := storetest.OwnStorage(t).ConnectionString()
	storage := "AzureWebJobsStorage=" + connection
	bus, setting := apptest.WithBus(t)
	app := start(t, built.handler, storage, setting)
	w := launchWorker(t, storage, setting)
	w.ready(t)
	if status, body := w.probe(t, "/healthz"); status != 200 || body != "{\"status\":\"ok\"}\n" {
		t.Errorf("healthz: %d %s", status, body)
	}
	status, body := w.probe(t, "/metrics")
	if _, ok := apptest.Series(t, body)[`kennel_queue_receives_total{queue="work-0"}`]; !ok || status != 200 || !strings.Contains(body, "\ngo_goroutines ") {
		t.Errorf("metrics: %d %s", status, body)
	}
	// What is opened first is one thing, and the API is no other.
	for path, want := range map[string]string{"": `src="/api/console/app.js"`, "/style.css": "color-scheme", "/api/me": `"local":true`, "/api/status": `"status":"`} {
		if status, body := w.probe(t, edge.ConsoleBase+path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("GET %s%s: %d %.200s, want 200 with %s", edge.ConsoleBase, path, status, body, want)
		}
	}
	for _, path := range []string{"/api/gates", "/api/consoles", "/API/console", edge.ConsoleBase + "/../gates", edge.ConsoleBase + "/%2e%2e/gates", edge.ConsoleBase + "/..%5Cgates"} {
		if status, body := w.probe(t, path); status != 404 {
			t.Errorf("GET %s: %d %.200s, want 404", path, status, body)
		}
	}
	if again := launchWith(t, built.handler, w.port, []string{"worker", "--listen", "127.0.0.1:" + strconv.Itoa(w.port)}, storage); again.exitCode(t) != 1 ||
		!strings.Contains(again.output.String(), "choose another one with --listen") {
		t.Errorf("a second worker on the port: %s", again.output)
	}

	queues, err := azure.Account{ConnectionString: connection}.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	created := app.channels(t, "PUT", "/news", `{"owner":"ann"}`)
	created.expect(t, "create", 201, "")
	app.channels(t, "POST", "/news/blogs", apptest.Draft).expect(t, "post", 201, "")
	for _, body := range []string{worker.InBase64(`{"v":1,"channel":"news","incarnation":"` + created.Incarnation + `"}`), "!!"} {
		if _, err := queues.Put(t.Context(), names.CleanupQueue, body, 0); err != nil {
			t.Fatal(err)
		}
	}
	for app.channels(t, "GET", "/news/deletion?incarnation="+created.Incarnation, "").State != string(channels.Done) {
		time.Sleep(time.Millisecond)
	}
	for {
		messages, err := queues.Receive(t.Context(), names.CleanupQueue+queue.PoisonSuffix, 32, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if len(messages) > 0 {
			if l, err := queue.ReadDeadLetter(messages[0].Body); len(messages) != 1 || err != nil || l.Text != "!!" || !strings.Contains(l.Reason, "decode base64") {
				t.Errorf("dead letters %+v, want the message that is not base64, and why", messages)
			}
			break
		}
		time.Sleep(time.Millisecond)
	}
	w.terminate()
	if code := w.exitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	for _, line := range []string{`"msg":"ready","logger":"kennel","kind":"worker"`, `"msg":"channel deleted"`, `"msg":"message put among the dead letters"`, `"msg":"stopped"`} {
		if !strings.Contains(w.output.String(), line) {
			t.Errorf("the log lacks %s:\n%s", line, w.output)
		}
	}
	if n, err := queues.Count(t.Context(), names.CleanupQueue); n != 0 || err != nil {
		t.Errorf("%d messages are left, %v", n, err)
	}
	app.receives(t, true)
	secondSignal(t, connection, queues)
	if got := len(bus.Entities()); got != 2 {
		t.Errorf("after the stop the bus holds %q, want the topic and the subscription of the app", bus.Entities())
	}
}

// secondSignal checks that a worker waits for the message that it works on after SIGTERM,
// and ends at once after another one. Other machines reach this worker, so it
// has no console.
func secondSignal(t *testing.T, connection string, queues *azure.Queues) {
	proxy, err := faultproxy.Start(connection)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	begun, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(ended) })
	var once sync.Once
	proxy.Add(faultproxy.Fault{Service: "table", Operation: "get", Before: func(faultproxy.Request) {
		once.Do(func() { close(begun) })
		<-ended
	}})
	port := freePort(t)
	w := workerProcess{launchWith(t, built.handler, port, []string{"worker", "--listen", ":" + strconv.Itoa(port)}, "AzureWebJobsStorage="+proxy.ConnectionString(), "KENNEL_WORKER_DRAIN=1h")}
	w.stopAfter(t)
	if _, err := queues.Put(t.Context(), names.CleanupQueue, worker.InBase64(`{"v":1,"channel":"news","incarnation":"0123456789abcdef-0123456789abcdef"}`), 0); err != nil {
		t.Fatal(err)
	}
	<-begun
	for _, path := range []string{"", "/app.js", "/api/status"} {
		if status, body := w.probe(t, edge.ConsoleBase+path); status != 404 {
			t.Errorf("GET %s%s of a worker that others reach: %d %.200s, want 404", edge.ConsoleBase, path, status, body)
		}
	}
	w.terminate()
	for {
		if status, body := w.probe(t, "/readyz"); status == 503 && strings.Contains(body, "stopping") {
			break
		}
	}
	w.terminate()
	if w.exitCode(t); w.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v, want it ended by the second signal", w.cmd.ProcessState)
	}
}

// TestArguments: unknown arguments end the program with a message, and --help
// explains the known ones.
func TestArguments(t *testing.T) {
	name := app.BinaryName()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, 0, name + " worker [--listen ADDRESS]"},
		{[]string{"worker", "--help"}, 0, name + " worker [--listen ADDRESS]"},
		{[]string{"wurker"}, 2, name + `: unknown argument "wurker"; see ` + name + " --help\n"},
		{[]string{"--help"}, 0, name + " describe "},
		{[]string{"describe", "--help"}, 0, name + " describe "},
		{[]string{"describe", "now"}, 2, `unknown argument "now"`},
		{[]string{"describe", "--"}, 2, "use describe without other arguments"},
		{[]string{"worker", "now"}, 2, `unknown argument "now"`},
		{[]string{"worker", "--port", "1"}, 2, "-port"},
		{[]string{"worker", "--listen", ""}, 2, "the address after --listen is empty"},
		{[]string{"--listen", ":1"}, 2, "-listen"},
		{[]string{"--help"}, 0, name + " probe [--listen ADDRESS]"},
		{[]string{"probe", "--help"}, 0, name + " probe [--listen ADDRESS]"},
		{[]string{"probe", "now"}, 2, `unknown argument "now"`},
		{[]string{"probe", "--listen", ""}, 2, "the address after --listen is empty"},
		{[]string{"probe", "--listen", "127.0.0.1"}, 1, "missing port"},
		{[]string{"worker"}, 1, "AzureWebJobsStorage is not set"},
		{nil, 1, "AzureWebJobsStorage is not set"},
	} {
		var stdout, stderr bytes.Buffer
		code := execute(tt.args, nil, &stdout, &stderr)
		output := &stdout
		if tt.code != 0 {
			output = &stderr
		}
		if code != tt.code || !strings.Contains(output.String(), tt.want) {
			t.Errorf("%q: code %d, %q %q, want %d and %q", tt.args, code, &stdout, &stderr, tt.code, tt.want)
		}
	}
}

// A worker cannot work with blobs alone.
func TestWorkerWithoutTables(t *testing.T) {
	var output bytes.Buffer
	code := execute([]string{"worker", "--listen", "127.0.0.1:0"}, []string{"AzureWebJobsStorage__blobServiceUri=https://kennel.blob.core.windows.net", "AzureWebJobsStorage__credential=managedidentity"}, &output, &output)
	if code != 1 || !strings.Contains(output.String(), "a worker needs the tables and queues of the storage account") {
		t.Errorf("code %d, %s", code, &output)
	}
}
