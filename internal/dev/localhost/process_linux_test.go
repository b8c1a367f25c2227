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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// When the host itself is killed, its handler dies with it.
func TestKilledHostLeavesNoHandler(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.Command(self)
	host.Dir = write(t, rawApp())
	host.Env = append(os.Environ(), childMode+"=host")
	output, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	defer func() {
		if !killed {
			_ = host.Process.Kill()
			_ = host.Wait()
		}
	}()
	url, err := bufio.NewReader(output).ReadString('\n')
	if err != nil || !strings.HasPrefix(url, "http://") {
		t.Fatalf("the host said %q, %v; want its URL", url, err)
	}
	ask := func(what string) int {
		t.Helper()
		resp, err := http.Get(strings.TrimSpace(url) + "/api/raw/x?do=" + what)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		number, err := strconv.Atoi(string(text))
		if err != nil {
			t.Fatalf("ask for the handler's %s: %v", what, err)
		}
		return number
	}
	port, pid := ask("port"), ask("pid")

	// An idle connection to the handler ends when the handler does.
	connection, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed = true
	_ = host.Wait()
	if err := connection.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := connection.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read from the handler: got %d bytes, %v; want the end of the connection", n, err)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// The kernel ties a child's life to the thread that started it. The handler must outlive that of its starter.
func TestHandlerOutlivesStartingThread(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := write(t, rawApp())
	l, err := newLauncher(handlerCommand{executable: self, workingDir: root, workerDir: filepath.Dir(self)}, root,
		map[string]string{childMode: "handler"}, &console{out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		p   *process
		err error
	}
	started := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		p, err := l.start()
		started <- result{p, err}
	}()
	r := <-started
	if r.err != nil {
		t.Fatal(r.err)
	}
	defer r.p.stop(0)
	if err := r.p.client.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-r.p.done:
		t.Errorf("the handler ended with its starter's thread: %s", exitText(r.p))
	default:
	}
}

// A handler killed from outside has crashed.
func TestHandlerKilledFromOutside(t *testing.T) {
	t.Parallel()
	r := start(t, write(t, rawApp()), Options{})
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
		r := start(t, write(t, patient(rawApp())), Options{})
		port := r.mustDo(t, "port")
		answered := make(chan int, 1)
		go func() {
			status, _ := r.do(t, "hang:on")
			answered <- status
		}()
		r.await(t, "hanging on")
		r.stop()
		if resp, err := http.Post("http://127.0.0.1:"+port+"/api/raw/x?do=exit:"+code, "", nil); err == nil {
			t.Errorf("the handler answered %d instead of exiting", resp.StatusCode)
		}
		if err := <-r.err; err != nil {
			t.Errorf("exit code %s: Run: got %v, want nil", code, err)
		}
		if status := <-answered; status != 500 {
			t.Errorf("exit code %s: call in flight: got %d, want 500", code, status)
		}
		if text := strings.ToLower(r.console.String()); strings.Contains(text, "handler exited") {
			t.Errorf("exit code %s: the wanted end of the handler was told:\n%s", code, text)
		}
	}
}
