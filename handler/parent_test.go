package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"kennel/internal/apptest"
)

// TestOrphan: a handler whose host was killed ends, although a caller waits at
// a gate. A warning arrives on standard error, other lines on standard output.
func TestOrphan(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a process does not get another parent")
	}
	path, err := built.handler()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{port: freePort(t), output: &apptest.Buffer{}}
	p.url = "http://127.0.0.1:" + strconv.Itoa(p.port)
	p.cmd = exec.Command("/bin/sh", "-c", `"$0" & echo $!; wait`, path)
	p.cmd.Env = []string{withStorage(t), "FUNCTIONS_CUSTOMHANDLER_PORT=" + strconv.Itoa(p.port), "GORACE=atexit_sleep_ms=0"}
	p.cmd.Stderr = p.output
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	first, err := lines.ReadString('\n')
	handler, atoiErr := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || atoiErr != nil {
		t.Fatal(first, err, atoiErr)
	}
	p.ready(t)
	waits, err := net.Dial("tcp4", "127.0.0.1:"+strconv.Itoa(p.port))
	if err != nil {
		t.Fatal(err)
	}
	defer waits.Close()
	io.WriteString(waits, "GET /api/gates/orphan/wait?timeout=200s HTTP/1.1\r\nHost: h\r\n\r\n")

	p.cmd.Process.Kill()
	lost := time.AfterFunc(30*time.Second, func() {
		t.Error("the handler goes on without its host")
		if process, err := os.FindProcess(handler); err == nil {
			process.Kill()
		}
	})
	text, _ := io.ReadAll(lines) // ends with the handler
	lost.Stop()
	p.cmd.Wait()
	const gone = `"level":"WARN","msg":"the functions host has ended; stopping"`
	if out, errs := string(text), p.output.String(); !strings.Contains(errs, gone) || strings.Contains(errs, `"INFO"`) ||
		strings.Contains(out, `"WARN"`) || !strings.Contains(out, `"msg":"ready"`) || !strings.Contains(out, `"msg":"stopped"`) {
		t.Errorf("standard output:\n%s\nstandard error:\n%s", out, errs)
	}
}
