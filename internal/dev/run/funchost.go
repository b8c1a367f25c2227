package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
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
	cmd.Env = append(environ(a.settings), executableSetting+"="+filepath.Base(h.executable))
	cmd.Stdout, cmd.Stderr = a.opt.Log, a.opt.Log
	inOwnGroup(cmd) // Ctrl+C reaches only this program, which stops the tools through the tether
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
	if ctx.Err() != nil {
		return nil // stopped on request: the exit code does not matter
	}
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("`func start` ended unexpectedly (%w); see its log", err)
}
