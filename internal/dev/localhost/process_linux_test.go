package localhost

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// When the host itself is killed, its handler dies with it.
func TestKilledHostLeavesNoHandler(t *testing.T) {
	t.Parallel()
	host := exec.Command(self(t))
	host.Dir = write(t, rawApp())
	host.Env = append(os.Environ(), childMode+"=host")
	output, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		host.Process.Kill()
		host.Wait()
	})
	defer end()
	url, err := bufio.NewReader(output).ReadString('\n')
	if err != nil || !strings.HasPrefix(url, "http://") {
		t.Fatalf("the host wrote %q, %v; want its URL", url, err)
	}
	ask := func(what string) string {
		resp, err := http.Get(strings.TrimSpace(url) + "/api/raw/x?do=" + what)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	port, pid := ask("env:FUNCTIONS_CUSTOMHANDLER_PORT"), number(ask("pid"))

	// An idle connection to the handler ends when the handler does.
	connection, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	end()
	if err := connection.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := connection.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read from the handler: got %d bytes, %v; want the end of the connection", n, err)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// The kernel ties a child's life to the thread that started it. The handler must
// outlive that of its starter.
func TestHandlerOutlivesStartingThread(t *testing.T) {
	t.Parallel()
	l, err := newLauncher(handlerCommand{executable: self(t)}, t.TempDir(), map[string]string{childMode: "handler"}, &console{out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	var p *process
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var err error
		p, err = l.start()
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

// A handler killed from outside has crashed.
func TestHandlerKilledFromOutside(t *testing.T) {
	t.Parallel()
	r := start(t, rawApp(), Options{})
	first := r.mustDo(t, "pid")
	if err := exec.Command("kill", "-9", first).Run(); err != nil {
		t.Fatal(err)
	}
	r.await(t, "The handler exited with signal: killed: error 1 of 3")
	if second := r.mustDo(t, "pid"); second == first {
		t.Error("the same process answers after it was killed")
	}
}

// Exit code 200 is never counted; what ends an endless loop of it is an invocation that has waited too long.
func TestRestartsForever(t *testing.T) {
	t.Parallel()
	app := rawApp()
	app["host.json"] = `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"leave"},"initializationTimeout":"00:00:00.4"}}`
	app["leave"] = "#!/bin/sh\nexit 200\n"
	app["Tick/function.json"] = `{"bindings":[{"type":"timerTrigger","name":"t","schedule":"0 0 0 1 1 *","runOnStartup":true}]}`
	root := write(t, app)
	if err := os.Chmod(filepath.Join(root, "leave"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newHost(t, root, Options{Executable: "leave"})
	if err := <-r.err; !errors.Is(err, ErrNeverReady) {
		t.Errorf("Run: got %v, want ErrNeverReady", err)
	}
}

// A handler that ends while the host stops, as by Ctrl+C in their terminal, has not crashed and is not replaced.
func TestHandlerEndsWhileStopping(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"0", "1", "200"} {
		r := start(t, patient(rawApp()), Options{})
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
			t.Errorf("exit code %s: the wanted end of the handler was reported:\n%s", code, text)
		}
	}
}
