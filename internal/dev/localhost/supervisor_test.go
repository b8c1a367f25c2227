package localhost

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// rawApp is one forwarded function; nothing else starts.
func rawApp() files {
	app := plainApp()
	return files{"host.json": app["host.json"], "Raw/function.json": app["Raw/function.json"]}
}

// patient gives an app a functionTimeout that no test reaches.
func patient(app files) files {
	app["host.json"] = strings.Replace(app["host.json"], `"00:00:01"`, `"00:10:00"`, 1)
	return app
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

func TestCrashRestartsHandler(t *testing.T) {
	t.Parallel()
	r := start(t, write(t, rawApp()), Options{})
	first := r.mustDo(t, "pid")
	if status, answer := r.do(t, "exit:1"); status != 500 || answer != "" {
		t.Errorf("call that crashes the handler: got %d %q, want 500 without a body", status, answer)
	}
	// Until the host has seen the end, calls fail.
	r.await(t, "error 1 of 3")
	r.await(t, "last words 5")
	if second := r.mustDo(t, "pid"); second == first {
		t.Error("the same process answers after a crash")
	}
}

// A third crash stops the host, with the real host's words and the last three lines of stderr.
func TestThirdCrashStopsHost(t *testing.T) {
	t.Parallel()
	r := start(t, write(t, rawApp()), Options{})
	for _, told := range []string{"error 1 of 3", "error 2 of 3", "Exceeded http worker restart retry count. Shutting down Functions Host"} {
		if status, _ := r.do(t, "exit:2"); status != 500 {
			t.Errorf("call that crashes the handler: got %d, want 500", status)
		}
		r.await(t, told)
	}
	err := <-r.err
	if !errors.Is(err, ErrCrashed) {
		t.Fatalf("Run: got %v, want ErrCrashed", err)
	}
	if text := err.Error(); !strings.Contains(text, "code 2") || !strings.Contains(text, "last words 3") ||
		!strings.Contains(text, "last words 5") || strings.Contains(text, "last words 2") {
		t.Errorf("Run: got %q, want the exit code and the last three lines", text)
	}
}

func TestCode200IsNotCounted(t *testing.T) {
	t.Parallel()
	r := start(t, write(t, rawApp()), Options{})
	seen := []string{r.mustDo(t, "pid")}
	for i := range 4 {
		r.do(t, "exit:200")
		r.awaitTimes(t, "exited with code 200: it is started again", i+1)
		pid := r.mustDo(t, "pid")
		if slices.Contains(seen, pid) {
			t.Errorf("process %s answers again", pid)
		}
		seen = append(seen, pid)
	}
	if text := r.console.String(); strings.Contains(text, "of 3") {
		t.Errorf("an exit with code 200 was counted:\n%s", text)
	}
}

// After exit code 0 the handler stays dead, and everything fails.
func TestCode0StaysDead(t *testing.T) {
	t.Parallel()
	r := start(t, write(t, rawApp()), Options{})
	r.do(t, "exit:0")
	r.await(t, "THE HANDLER EXITED WITH CODE 0")
	for range 2 {
		if status, _ := r.do(t, "pid"); status != 500 {
			t.Errorf("call to the dead handler: got %d, want 500", status)
		}
	}
	r.await(t, "the handler has exited with code 0")
	if _, text := r.call(t, "GET", "/admin/host/status", nil); !strings.Contains(text, `"state":"Error"`) {
		t.Errorf("host status: got %s, want the state Error", text)
	}
	r.stop()
	if err := <-r.err; err != nil {
		t.Errorf("Run after a stop: got %v, want nil", err)
	}
}

// An invocation that exceeds functionTimeout has the handler killed. That is not counted as a crash.
func TestTimeoutKillsHandler(t *testing.T) {
	t.Parallel()
	r := start(t, write(t, rawApp()), Options{})
	first := r.mustDo(t, "pid")
	if status, answer := r.do(t, "hang"); status != 500 || answer != "" {
		t.Errorf("call that hangs: got %d %q, want 500 without a body", status, answer)
	}
	r.await(t, "Timeout value of 00:00:01 exceeded by function 'Raw'")
	if second := r.mustDo(t, "pid"); second == first {
		t.Error("the same process answers after a timeout")
	}
	if text := r.console.String(); strings.Contains(text, "of 3") {
		t.Errorf("a timeout was counted as a crash:\n%s", text)
	}
}

// When the handler is killed for one invocation, all the others in flight fail.
func TestReplacementFailsEverything(t *testing.T) {
	t.Parallel()
	r := start(t, write(t, patient(rawApp())), Options{})
	var calls sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		calls.Go(func() {
			if status, answer := r.do(t, "hang:"+name); status != 500 || answer != "" {
				t.Errorf("call in flight: got %d %q, want 500 without a body", status, answer)
			}
		})
		r.await(t, "hanging "+name)
	}
	old := r.replace(t)
	calls.Wait()
	if pid := r.mustDo(t, "pid"); pid == strconv.Itoa(old) {
		t.Error("the same process answers after its replacement")
	}
}

// replace has the handler killed and started again, as after a timeout, and returns the old one's process id.
func (r *running) replace(t *testing.T) (pid int) {
	t.Helper()
	p, err := r.handler.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.replace()
	return p.cmd.Process.Pid
}

func TestEmptyAnswerFailsLoudly(t *testing.T) {
	t.Parallel()
	app := rawApp()
	app["Wrap/function.json"] = `{"bindings":[{"type":"httpTrigger","name":"req"},{"type":"http","direction":"out","name":"res"},{"type":"serviceBus","direction":"out","name":"bus"}]}`
	r := start(t, write(t, app), Options{})
	first := r.mustDo(t, "pid")
	if resp, _ := r.call(t, "GET", "/api/wrap?do=empty", nil); resp.StatusCode != 500 {
		t.Errorf("empty answer: got %d, want 500", resp.StatusCode)
	}
	r.await(t, "FUNCTION 'Wrap' GAVE AN EMPTY ANSWER")
	if pid := r.mustDo(t, "pid"); pid != first {
		t.Error("the handler was replaced, though the hang was not to be real")
	}
}

func TestStrictHangIsReal(t *testing.T) {
	t.Parallel()
	app := rawApp()
	app["Wrap/function.json"] = `{"bindings":[{"type":"httpTrigger","name":"req"}]}`
	r := start(t, write(t, app), Options{StrictHang: true})
	first := r.mustDo(t, "pid")
	if resp, _ := r.call(t, "GET", "/api/wrap?do=empty", nil); resp.StatusCode != 500 {
		t.Errorf("empty answer: got %d, want 500", resp.StatusCode)
	}
	r.await(t, "Timeout value of 00:00:01 exceeded by function 'Wrap'")
	if pid := r.mustDo(t, "pid"); pid == first {
		t.Error("the handler was not killed at the end of functionTimeout")
	}
}

// A handler that never listens is an error each time, until the third stops the host.
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
		t.Error("the host was ready, though its handler never was")
	default:
	}
}

// Exit code 0 before the handler is ready: the host says so and goes on asking.
func TestQuitsBeforeReady(t *testing.T) {
	t.Parallel()
	r := newHost(t, write(t, rawApp()), Options{Env: map[string]string{childMode: "quit"}})
	r.await(t, "exited with code 0 before it was ready")
	r.stop()
	if err := <-r.err; err != nil {
		t.Errorf("Run after a stop: got %v, want nil", err)
	}
}

// A stop is SIGKILL without notice, unless asked otherwise.
func TestStopKills(t *testing.T) {
	for _, patience := range []time.Duration{0, time.Minute} {
		t.Run(patience.String(), func(t *testing.T) {
			t.Parallel()
			r := start(t, write(t, rawApp()), Options{GracefulStop: patience, Env: map[string]string{childMode: "polite"}})
			pid, err := strconv.Atoi(r.mustDo(t, "pid"))
			if err != nil {
				t.Fatal(err)
			}
			r.stop()
			if err := <-r.err; err != nil {
				t.Errorf("Run: got %v, want nil", err)
			}
			if told := strings.Contains(r.console.String(), "got SIGTERM"); told != (patience > 0) {
				t.Errorf("the handler was told: got %v, want %v", told, patience > 0)
			}
			if process, err := os.FindProcess(pid); err == nil && process.Signal(syscall.Signal(0)) == nil {
				t.Errorf("process %d is still there", pid)
			}
		})
	}
}

// An invocation in flight gets its time when the host stops.
func TestStopWaitsForInvocations(t *testing.T) {
	t.Parallel()
	r := start(t, write(t, rawApp()), Options{})
	answered := make(chan int, 1)
	go func() {
		resp, _ := r.call(t, "GET", "/api/raw/x?do=hang:now", nil)
		answered <- resp.StatusCode
	}()
	r.await(t, "hanging now")
	r.stop()
	// It ends by functionTimeout, well before the ten seconds are over; only then does the host stop.
	if err := <-r.err; err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
	r.await(t, "Timeout value")
	if status := <-answered; status != 500 {
		t.Errorf("call in flight: got %d, want 500", status)
	}
}

func TestUnstartableHandler(t *testing.T) {
	t.Parallel()
	root := write(t, rawApp())
	if _, err := New(root, nil); err == nil || !strings.Contains(err.Error(), "build it first") {
		t.Errorf("New without the executable: got %v, want an error that says to build it", err)
	}
	if err := os.WriteFile(filepath.Join(root, "handler"), []byte("#!/bin/true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h, err := New(root, &Options{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "exec bit") {
		t.Errorf("Run without the exec bit: got %v, want an error that names it", err)
	}
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	root := write(t, rawApp())
	r := start(t, root, Options{})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(root, &Options{Addr: r.Addr(), Executable: self})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("Run on an address in use: got %v, want an error that says so", err)
	}
}

func TestLongLinesArrive(t *testing.T) {
	t.Parallel()
	r := start(t, write(t, rawApp()), Options{})
	r.mustDo(t, "long:300000")
	r.await(t, "\n<"+strings.Repeat("x", 300000)+">\n")
}

func TestCrashRecord(t *testing.T) {
	minutes := func(list ...int) (stops []bool) {
		var record crashRecord
		begin := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
		for _, m := range list {
			stops = append(stops, record.add(begin.Add(time.Duration(m)*time.Minute)))
		}
		return stops
	}
	for _, test := range []struct{ at, want []int }{
		{[]int{0, 1, 2}, []int{2}},
		{[]int{0, 29, 58}, []int{2}},
		{[]int{0, 30, 60}, []int{2}},
		{[]int{0, 31, 62, 93}, nil},
		{[]int{0, 1, 32, 33, 34}, []int{4}},
	} {
		for i, stop := range minutes(test.at...) {
			if want := slices.Contains(test.want, i); stop != want {
				t.Errorf("errors at the minutes %v: error %d stops the host: got %v, want %v", test.at, i+1, stop, want)
			}
		}
	}
}

func TestLineWriter(t *testing.T) {
	var got []string
	w := &lineWriter{emit: func(line string) { got = append(got, line) }}
	for _, piece := range []string{"a", "b\ncd", "\r\n\n", "e\nf", strings.Repeat("y", longestLine), "z\n", "end"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Errorf("write: got %d, %v", n, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{"ab", "cd", "", "e", "f" + strings.Repeat("y", longestLine-1), "yz", "end"}
	if !slices.Equal(got, want) {
		t.Errorf("lines: got %d, want %d", len(got), len(want))
	}
}
