package localhost

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A third crash stops the host, with the real host's words and the last three
// lines of stderr.
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
	if text := err.Error(); !strings.Contains(text, "code 2") || !strings.Contains(text, "last words 3") ||
		!strings.Contains(text, "last words 5") || strings.Contains(text, "last words 2") {
		t.Errorf("Run: got %q, want the exit code and the last three lines", text)
	}
}

func TestCode200IsNotCounted(t *testing.T) {
	t.Parallel()
	r := start(t, rawApp(), Options{})
	seen := []string{r.mustDo(t, "pid")}
	for i := range 4 {
		r.do(t, "exit:200")
		r.await(t, "exited with code 200: it is started again", i+1)
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

// An invocation that exceeds functionTimeout has the handler killed. That is not
// counted as a crash. An empty answer is such an invocation under StrictHang;
// otherwise it fails at once, and the handler goes on.
func TestTimeoutKillsHandler(t *testing.T) {
	for _, tt := range []struct {
		name, path, says string
		strict, killed   bool
	}{
		{"hang", "/api/raw/x?do=hang", "Timeout value of 00:00:01 exceeded by function 'Raw'", false, true},
		{"empty answer", "/api/still?do=empty", "FUNCTION 'Still' GAVE AN EMPTY ANSWER", false, false},
		{"empty answer, strictly", "/api/still?do=empty", "Timeout value of 00:00:01 exceeded by function 'Still'", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			app := rawApp()
			app["Still/function.json"] = plainApp()["Still/function.json"]
			r := start(t, app, Options{StrictHang: tt.strict})
			first := r.mustDo(t, "pid")
			if resp, answer := r.call(t, "GET", tt.path, nil); resp.StatusCode != 500 || answer != "" {
				t.Errorf("got %d %q, want 500 without a body", resp.StatusCode, answer)
			}
			r.await(t, tt.says)
			if killed := r.mustDo(t, "pid") != first; killed != tt.killed {
				t.Errorf("another process answers: got %v, want %v", killed, tt.killed)
			}
			if text := r.console.String(); strings.Contains(text, "of 3") {
				t.Errorf("a timeout was counted as a crash:\n%s", text)
			}
		})
	}
}

// When the handler is killed for one invocation, all the others in flight fail.
func TestReplacementFailsEverything(t *testing.T) {
	t.Parallel()
	r := start(t, patient(rawApp()), Options{})
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

// A handler that never listens is an error each time, until the third stops the
// host.
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
	r := newHost(t, write(t, rawApp()), Options{Env: map[string]string{childMode: "0"}})
	r.await(t, "exited with code 0 before it was ready")
	r.end(t)
}

// A stop is SIGKILL without notice, unless asked otherwise.
func TestStopKills(t *testing.T) {
	for _, patience := range []time.Duration{0, time.Minute} {
		t.Run(patience.String(), func(t *testing.T) {
			t.Parallel()
			r := start(t, rawApp(), Options{GracefulStop: patience, Env: map[string]string{childMode: "polite"}})
			pid := number(r.mustDo(t, "pid"))
			r.end(t)
			if polite := strings.Contains(r.console.String(), "got SIGTERM"); polite != (patience > 0) {
				t.Errorf("the handler got SIGTERM: %v, want %v", polite, patience > 0)
			}
			if process, err := os.FindProcess(pid); err == nil && process.Signal(syscall.Signal(0)) == nil {
				t.Errorf("process %d is still there", pid)
			}
		})
	}
}

// An invocation in flight gets its time when the host stops. It ends by
// functionTimeout, well before the ten seconds are over; only then does the host
// stop.
func TestStopWaitsForInvocations(t *testing.T) {
	t.Parallel()
	r := start(t, rawApp(), Options{})
	var call sync.WaitGroup
	call.Go(func() { r.fails(t, "hang:now") })
	r.await(t, "hanging now")
	r.end(t)
	r.await(t, "Timeout value")
	call.Wait()
}

func TestUnstartableHandler(t *testing.T) {
	t.Parallel()
	app := rawApp()
	app["handler"] = "#!/bin/true\n"
	h := must(New(write(t, app), listener(t), nil))
	expectError(t, "Run without the exec bit", h.Run(context.Background()), "exec bit")
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
