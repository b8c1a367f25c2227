package localhost

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestThirdCrashStopsHost checks that the third crash stops the host with the
// real host's message and the last three lines of stderr.
func TestThirdCrashStopsHost(t *testing.T) {
	t.Parallel()
	r := start(t, rawApp(), Options{})
	for _, want := range []string{"error 1 of 3", "error 2 of 3", "Exceeded http worker restart retry count. Shutting down Functions Host"} {
		r.fails(t, "exit:2")
		r.await(t, want)
	}
	err := <-r.err
	if !errors.Is(err, ErrCrashed) {
		t.Fatalf("Run: got %v, want ErrCrashed", err)
	}
	if text := err.Error(); !strings.Contains(text, "code 2") || !strings.Contains(text, "last line 3") ||
		!strings.Contains(text, "last line 5") || strings.Contains(text, "last line 2") {
		t.Errorf("Run: got %q, want the exit code and the last three lines", text)
	}
	if n := strings.Count(r.console.String(), "last line 5"); n != 3 {
		t.Errorf("the console has the last line of three crashes %d times", n)
	}
}

func TestCode200IsNotCounted(t *testing.T) {
	t.Parallel()
	r := start(t, rawApp(), Options{})
	seen, port := []string{r.mustDo(t, "pid")}, r.mustDo(t, "env:FUNCTIONS_CUSTOMHANDLER_PORT")
	for i := range 4 {
		r.do(t, "exit:200")
		r.await(t, "exited with code 200 and is restarted", i+1)
		pid := r.mustDo(t, "pid")
		if slices.Contains(seen, pid) {
			t.Errorf("process %s answers again", pid)
		}
		if got := r.mustDo(t, "env:FUNCTIONS_CUSTOMHANDLER_PORT"); got != port {
			t.Errorf("port of the next process: got %s, want %s again", got, port)
		}
		seen = append(seen, pid)
	}
	if text := r.console.String(); strings.Contains(text, "of 3") {
		t.Errorf("an exit with code 200 was counted:\n%s", text)
	}
}

// TestCode0StaysDead checks that the handler is not restarted after exit code 0
// and that all invocations fail.
func TestCode0StaysDead(t *testing.T) {
	t.Parallel()
	r := start(t, rawApp(), Options{})
	r.do(t, "exit:0")
	r.await(t, "THE HANDLER EXITED WITH CODE 0")
	r.fails(t, "pid")
	r.fails(t, "pid")
	r.await(t, "the handler has exited with code 0")
	if _, text := r.call(t, "GET", "/admin/host/status", nil); !strings.Contains(text, `"state":"Error"`) {
		t.Errorf("host status: got %s, want the state Error", text)
	}
	r.end(t)
}

// TestTimeoutKillsHandler checks that the handler is killed if an invocation
// exceeds functionTimeout, and that this is not counted as a crash. With
// StrictHang an empty response leads to this timeout; otherwise it fails at
// once and the handler keeps running.
func TestTimeoutKillsHandler(t *testing.T) {
	for _, tt := range []struct {
		name, path, text string
		strict, killed   bool
	}{
		{"hang", "/api/raw/x?do=hang", "Timeout value of 00:00:03 exceeded by function 'Raw'", false, true},
		{"empty answer", "/api/still?do=empty", "FUNCTION 'Still' RETURNED AN EMPTY RESPONSE", false, false},
		{"empty answer, strictly", "/api/still?do=empty", "Timeout value of 00:00:03 exceeded by function 'Still'", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			app := withTimeout(rawApp())
			app["Still/function.json"] = plainApp()["Still/function.json"]
			r := start(t, app, Options{StrictHang: tt.strict})
			first := r.mustDo(t, "pid")
			if resp, answer := r.call(t, "GET", tt.path, nil); resp.StatusCode != 500 || answer != "" {
				t.Errorf("got %d %q, want 500 without a body", resp.StatusCode, answer)
			}
			r.await(t, tt.text)
			if killed := r.mustDo(t, "pid") != first; killed != tt.killed {
				t.Errorf("another process answers: got %v, want %v", killed, tt.killed)
			}
			if text := r.console.String(); strings.Contains(text, "of 3") {
				t.Errorf("a timeout was counted as a crash:\n%s", text)
			}
		})
	}
}

// TestReplacementFailsEverything checks that all invocations fail when the
// handler is killed because of one.
func TestReplacementFailsEverything(t *testing.T) {
	t.Parallel()
	r := start(t, rawApp(), Options{})
	old := r.mustDo(t, "pid")
	var calls sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		calls.Go(func() { r.fails(t, "hang:"+name) })
		r.await(t, "hanging "+name)
	}
	r.replace(t)
	calls.Wait()
	if pid := r.mustDo(t, "pid"); pid == old {
		t.Error("the same process answers after its replacement")
	}
}

// TestNeverReady checks that each handler that does not listen is counted as an
// error and that the third one stops the host.
func TestNeverReady(t *testing.T) {
	t.Parallel()
	app := rawApp()
	app["host.json"] = `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"h"},"initializationTimeout":"00:00:00.2"}}`
	r := newHost(t, write(t, app), Options{Env: map[string]string{childMode: "mute"}})
	err := <-r.err
	if !errors.Is(err, ErrCrashed) || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("Run: got %v, want ErrCrashed by a timeout", err)
	}
	select {
	case <-r.Ready():
		t.Error("the host is ready although its handler is not")
	default:
	}
}

// TestQuitsBeforeReady checks that the host reports exit code 0 before the
// handler is ready and keeps waiting, while requests do not wait.
func TestQuitsBeforeReady(t *testing.T) {
	t.Parallel()
	r := newHost(t, write(t, rawApp()), Options{Env: map[string]string{childMode: "0"}})
	r.await(t, "exited with code 0 before it was ready")
	resp, body := r.call(t, "GET", "/api/raw/x", nil)
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || !strings.Contains(body, `"code":"starting"`) {
		t.Errorf("a request before the app is ready: got %d %v %s, want 503 with Retry-After", resp.StatusCode, resp.Header, body)
	}
	if resp, body := r.call(t, "GET", "/admin/host/status", nil); resp.StatusCode != 200 || !strings.Contains(body, `"state":"Starting"`) {
		t.Errorf("host status: got %d %s, want Starting", resp.StatusCode, body)
	}
	r.end(t)
}

// TestStopKills checks that a stop sends SIGKILL, or SIGTERM first if
// configured.
func TestStopKills(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Minute} {
		t.Run(grace.String(), func(t *testing.T) {
			t.Parallel()
			r := start(t, rawApp(), Options{GracefulStop: grace, Env: map[string]string{childMode: "polite"}})
			pid := number(r.mustDo(t, "pid"))
			r.end(t)
			if polite := strings.Contains(r.console.String(), "got SIGTERM"); polite != (grace > 0) {
				t.Errorf("the handler got SIGTERM: %v, want %v", polite, grace > 0)
			}
			if process, err := os.FindProcess(pid); err == nil && process.Signal(syscall.Signal(0)) == nil {
				t.Errorf("process %d is still running", pid)
			}
		})
	}
}

// TestStopWaitsForInvocations checks that the host waits for a running
// invocation before it stops. The invocation ends by functionTimeout, well
// before the ten seconds are over.
func TestStopWaitsForInvocations(t *testing.T) {
	t.Parallel()
	r := start(t, withTimeout(rawApp()), Options{})
	var call sync.WaitGroup
	call.Go(func() { r.fails(t, "hang:now") })
	r.await(t, "hanging now")
	r.end(t)
	r.await(t, "Timeout value")
	call.Wait()
}

// TestUnstartableHandler checks that the host keeps running without a handler,
// reports what to do, and fails every call.
func TestUnstartableHandler(t *testing.T) {
	for _, tt := range []struct{ name, executable, want string }{
		{"missing", "nothing-here", "build it first"},
		{"missing with a full path", "/nothing/here", "build it first"},
		{"without the exec bit", "text", "set its exec bit"},
		{"not a program", "junk", "build it for this system"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			app := plainApp()
			app["text"], app["junk"] = "#!/bin/true\n", "\x01\x02"
			root := write(t, app)
			if err := os.Chmod(filepath.Join(root, "junk"), 0o755); err != nil {
				t.Fatal(err)
			}
			queues := newQueues(t)
			r := newHost(t, root, Options{Executable: tt.executable, Queues: queues})
			<-r.Ready()
			expectError(t, "HandlerError", r.HandlerError(), tt.want)
			r.await(t, "ERROR: The handler cannot be started: ")
			r.await(t, tt.want)
			r.fails(t, "pid")
			r.fails(t, "pid")
			if _, body := r.call(t, "GET", "/admin/host/status", nil); !strings.Contains(body, `"state":"Running"`) {
				t.Errorf("host status: got %s, want Running", body)
			}
			queues.put(t, "jobs", base("x"))
			r.await(t, "moved to 'jobs-poison'")
			r.end(t)
		})
	}
}

// TestHandlerLost checks that the host keeps running if the handler is deleted
// between two starts.
func TestHandlerLost(t *testing.T) {
	t.Parallel()
	root := write(t, rawApp())
	handler := filepath.Join(root, "handler")
	if err := os.Symlink(must(os.Executable()), handler); err != nil {
		t.Fatal(err)
	}
	r := newHost(t, root, Options{Executable: "handler"})
	<-r.Ready()
	r.mustDo(t, "pid")
	if err := os.Remove(handler); err != nil {
		t.Fatal(err)
	}
	r.fails(t, "exit:2")
	r.await(t, "ERROR: The handler cannot be started: ")
	r.fails(t, "pid")
	r.end(t)
}

func TestCrashRecord(t *testing.T) {
	for _, tt := range []struct{ minutes, stops []int }{
		{[]int{0, 1, 2}, []int{2}},
		{[]int{0, 29, 58}, []int{2}},
		{[]int{0, 30, 60}, []int{2}},
		{[]int{0, 31, 62, 93}, nil},
		{[]int{0, 1, 32, 33, 34}, []int{4}},
	} {
		var record crashRecord
		for i, m := range tt.minutes {
			stop := record.add(time.Date(2026, 1, 2, 0, m, 0, 0, time.UTC))
			if want := slices.Contains(tt.stops, i); stop != want {
				t.Errorf("errors at the minutes %v: error %d stops the host: got %v, want %v", tt.minutes, i+1, stop, want)
			}
		}
	}
}

func TestLineWriter(t *testing.T) {
	var got []string
	w := &lineWriter{emit: func(line string) { got = append(got, line) }}
	for _, piece := range []string{"a", "b\ncd", "\r\n\n", "e\nf", strings.Repeat("y", maxLine), "z\n", "end"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Errorf("write: got %d, %v", n, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{"ab", "cd", "", "e", "f" + strings.Repeat("y", maxLine-1), "yz", "end"}
	if !slices.Equal(got, want) {
		t.Errorf("lines: got %d, want %d", len(got), len(want))
	}
}
