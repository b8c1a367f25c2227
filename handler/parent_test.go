package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatchParent(t *testing.T) {
	for name, tt := range map[string]struct {
		parents []int
		want    int // calls of orphaned
	}{
		"parent remains":                {[]int{7, 7, 7}, 0},
		"parent is 1 from the start":    {[]int{1, 1, 1}, 0},
		"parent is outside, thus 0":     {[]int{0, 0, 0}, 0},
		"parent ends":                   {[]int{7, 7, 1}, 1},
		"parent ends below a subreaper": {[]int{7, 9, 9, 1}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			reads, calls := 0, 0
			done := make(chan struct{})
			go func() {
				defer close(done)
				watchParent(ctx, tt.parents[0], func() int {
					reads++
					return tt.parents[min(reads, len(tt.parents)-1)]
				}, func() { calls++ })
			}()
			time.Sleep(time.Minute)
			cancel()
			<-done
			if calls != tt.want {
				t.Errorf("%s: %d calls, want %d", name, calls, tt.want)
			}
		})
	}
}

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
	p := &process{port: freePort(t), output: &lockedBuffer{}}
	p.url = "http://127.0.0.1:" + strconv.Itoa(p.port)
	p.cmd = exec.Command("/bin/sh", "-c", `"$0" & echo $!; wait`, path)
	p.cmd.Env = []string{withAzurite(t), "FUNCTIONS_CUSTOMHANDLER_PORT=" + strconv.Itoa(p.port), "GORACE=atexit_sleep_ms=0"}
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
