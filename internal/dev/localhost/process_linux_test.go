package localhost

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// The kernel kills a child when the thread that started it ends. The handler
// must keep running when its starter's thread ends.
func TestHandlerOutlivesStartingThread(t *testing.T) {
	t.Parallel()
	l := newLauncher(handlerCommand{executable: must(os.Executable())}, t.TempDir(), map[string]string{childMode: "handler"}, &console{out: io.Discard})
	var p *process
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var err error
		p, err = l.start(0)
		started <- err
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	defer p.stop(0)
	if err := p.client.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-p.done:
		t.Errorf("the handler ended with its starter's thread: %s", exitText(p))
	default:
	}
}

// A handler that is killed by another process counts as crashed.
func TestHandlerKilledFromOutside(t *testing.T) {
	t.Parallel()
	r := start(t, rawApp(), Options{})
	first := r.mustDo(t, "pid")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.await(t, "The handler exited with signal: killed: error 1 of 3")
	if second := r.mustDo(t, "pid"); second == first {
		t.Error("the same process answers after it was killed")
	}
}

// TestRestartsForever checks that exit code 200 is never counted, and that the
// host stops when an invocation has waited too long.
func TestRestartsForever(t *testing.T) {
	t.Parallel()
	app := rawApp()
	app["host.json"] = `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"h"},"initializationTimeout":"00:00:01"}}`
	app["h"] = "#!/bin/sh\nsleep 0.1\nexit 200\n" // starts within the second on a busy machine, too
	app["Tick/function.json"] = `{"bindings":[{"type":"timerTrigger","name":"t","schedule":"0 0 0 1 1 *","runOnStartup":true}]}`
	root := write(t, app)
	if err := os.Chmod(filepath.Join(root, "h"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newHost(t, root, Options{Executable: "h"})
	if err := <-r.err; !errors.Is(err, ErrNeverReady) {
		t.Errorf("Run: got %v, want ErrNeverReady", err)
	}
}

// TestHandlerEndsWhileStopping checks that a handler that ends while the host
// stops, as after Ctrl+C, is not counted as crashed and not restarted.
func TestHandlerEndsWhileStopping(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"0", "1", "200"} {
		r := start(t, rawApp(), Options{})
		port := r.mustDo(t, "env:FUNCTIONS_CUSTOMHANDLER_PORT")
		var call sync.WaitGroup
		call.Go(func() { r.fails(t, "hang:on") })
		r.await(t, "hanging on")
		r.stop()
		if resp, err := http.Post("http://127.0.0.1:"+port+"/api/raw/x?do=exit:"+code, "", nil); err == nil {
			t.Errorf("the handler answered %d instead of exiting", resp.StatusCode)
		}
		if err := <-r.err; err != nil {
			t.Errorf("exit code %s: Run: got %v, want nil", code, err)
		}
		call.Wait()
		if text := strings.ToLower(r.console.String()); strings.Contains(text, "handler exited") {
			t.Errorf("exit code %s: the intended end of the handler was reported as an error:\n%s", code, text)
		}
	}
}
