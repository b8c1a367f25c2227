package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"time"

	"kennel/internal/dev/localhost"
)

// runFunc runs the app in the Azure Functions Core Tools until ctx ends. It
// calls ready once they report that they are running.
//
// The tools start further processes. These do not end with the program that
// started the tools, and not always with the tools. So the tools run under
// [Tether].
func (a *App) runFunc(ctx context.Context, h hosted, ready func(error)) error {
	_, port, err := net.SplitHostPort(h.listener.Addr().String())
	if err != nil {
		return err
	}
	if err := h.listener.Close(); err != nil { // the tools open the port themselves
		return err
	}
	args := append(slices.Clone(a.opt.Tether), "func", "start", "--port", port)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = h.dist
	cmd.Env = environ(a.settings)
	log := &crashLog{out: a.opt.Log}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = time.Second // processes of the tools may still hold their output
	inOwnGroup(cmd)             // Ctrl+C reaches only this program, which stops the tools through the tether
	tether, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	running, ended := context.WithCancel(ctx)
	var greeting sync.WaitGroup
	greeting.Go(func() {
		isRunning := func(ctx context.Context) bool {
			// Every error may pass: the host does not listen yet or is still
			// loading. Its end is noticed by Wait.
			state, err := hostState(ctx, "http://127.0.0.1:"+port)
			return err == nil && state == "Running"
		}
		slow := func() {
			a.warn(fmt.Sprintf("func is not ready after %v; its log may show why (--verbose); --host builtin does not need it", slowHost))
		}
		if awaitHost(running, isRunning, slow) == nil {
			ready(nil)
		}
	})
	forget := context.AfterFunc(ctx, func() {
		io.WriteString(tether, "stop\n") // fails if the tools have already ended
	})
	err = cmd.Wait()
	forget()
	ended()
	greeting.Wait()
	held := portHeld(h.listener.Addr().String())
	switch {
	case held:
		return fmt.Errorf("`func start` ended (%w), but a process that it started still listens on port %s; end that process, or use another port with --port", orZero(err), port)
	case ctx.Err() != nil:
		return nil // stopped on request: the exit code does not matter
	}
	if crash := log.crash(); crash != nil {
		return crash
	}
	return fmt.Errorf("`func start` ended unexpectedly (%w); see its log", orZero(err))
}

// orZero is err, or the status of a program that ended without one.
func orZero(err error) error {
	if err == nil {
		err = errors.New("exit status 0")
	}
	return err
}

// portHeld reports whether a program still listens at the address.
func portHeld(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// A crashLog passes the log of the host on and finds in it why the host gives
// up: the handler has crashed three times.
type crashLog struct {
	out io.Writer

	mu      sync.Mutex
	partial []byte // an incomplete line; guarded by mu
	how     string // the last exit of the handler; guarded by mu
	gaveUp  bool   // guarded by mu
}

// The lines that the host logs of an exit, and when it gives up.
var (
	exitLine   = regexp.MustCompile(`(?i)\bexited with (code -?\d+|signal: [a-z ]+)`)
	gaveUpLine = regexp.MustCompile(`(?i)exceeded .*worker restart retry count`)
)

// maxLogLine is how much of a line is searched.
const maxLogLine = 64 << 10

func (l *crashLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	l.partial = append(l.partial, p...)
	for {
		line, rest, whole := bytes.Cut(l.partial, []byte("\n"))
		if !whole && len(line) < maxLogLine {
			break
		}
		l.partial = rest
		if m := exitLine.FindSubmatch(line); m != nil {
			l.how = "exited with " + string(m[1])
		}
		l.gaveUp = l.gaveUp || gaveUpLine.Match(line)
	}
	l.mu.Unlock()
	return l.out.Write(p)
}

// crash returns the reason of a host that gave up, or nil.
func (l *crashLog) crash() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gaveUp {
		return nil
	}
	return &localhost.CrashError{How: cmp.Or(l.how, "ended")}
}
