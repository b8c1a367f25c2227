package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/faultproxy"
	"kennel/internal/storetest"
	"kennel/table"
)

// built holds the real programs, each built once, when a test first needs it.
var built = struct {
	handler, bare               func() (string, error)
	shippedHandler, shippedBare func() (string, error) // as `make build` makes them, for figures
}{
	handler:        func() (string, error) { return storetest.Build("kennel/handler") },
	bare:           func() (string, error) { return storetest.Build("kennel/handler/testdata/bare") },
	shippedHandler: func() (string, error) { return storetest.BuildShipped("kennel/handler") },
	shippedBare:    func() (string, error) { return storetest.BuildShipped("kennel/handler/testdata/bare") },
}

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// process is a running program that listens where the host told it to.
type process struct {
	url    string
	port   int
	cmd    *exec.Cmd
	output *lockedBuffer
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs a program on a free port, and does not wait until it answers.
func start(t testing.TB, program func() (string, error), env ...string) *process {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{port: freePort(t), output: &lockedBuffer{}}
	p.url = "http://127.0.0.1:" + strconv.Itoa(p.port)
	p.cmd = exec.Command(path)
	p.cmd.Env = append([]string{
		"FUNCTIONS_CUSTOMHANDLER_PORT=" + strconv.Itoa(p.port),
		"GORACE=atexit_sleep_ms=0", // under the race detector it would sleep for a second before it ends
	}, env...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		if t.Failed() {
			t.Logf("the process said:\n%s", p.output)
		}
	})
	return p
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
		time.Sleep(200 * time.Microsecond) // between two looks, as the host does
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// call makes one request and returns status, headers and body.
func (p *process) call(t testing.TB, method, path string, body io.Reader, header ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
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
	return answer.StatusCode, answer.Header, string(text)
}

// request makes a call, with a JSON body unless that is "", and decodes the
// JSON answer. Its members must all be known.
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

// openTable opens one of the tables of the tests' Azurite.
func openTable(t testing.TB, tables *azure.Tables, name string) *azure.Table {
	t.Helper()
	store, err := azure.NewTable(tables, name)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

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

func withAzurite(t testing.TB) string {
	return "AzureWebJobsStorage=" + storetest.Azurite(t).ConnectionString()
}

// openAzurite opens the tables and queues of the tests' Azurite.
func openAzurite(t testing.TB) (*azure.Tables, *azure.Queues) {
	t.Helper()
	account := azure.Account{ConnectionString: storetest.Azurite(t).ConnectionString()}
	tables, err := account.OpenTables(nil)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := account.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	return tables, queues
}

// rows returns the keys of the rows of a partition, or of all for "".
func rows(t *testing.T, store *azure.Table, partition string) (all []table.Row) {
	t.Helper()
	for q := (table.Query{Partition: partition, KeysOnly: true, Top: table.MaxPage}); ; {
		page, err := store.Query(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Rows...)
		if q.After = page.Next; q.After == "" {
			return all
		}
	}
}

// age merges a time that is long ago into a row.
func age(t *testing.T, store *azure.Table, partition, key, column string, by time.Duration) {
	t.Helper()
	_, err := store.Submit(t.Context(), []table.Write{{Verb: table.Merge, If: table.AnyVersion, Row: table.Row{
		Partition: partition, Key: key, Values: map[string]string{column: time.Now().UTC().Add(-by).Format(time.RFC3339Nano)},
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

// newProxy starts a fault proxy before the tests' Azurite.
func newProxy(t testing.TB) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.Start(storetest.Azurite(t).ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
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

func lines(s string) []string { return strings.Split(strings.TrimSpace(s), "\n") }
