package run

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// TetherTime is the default time for a program to stop. The Functions host lets
// running functions finish for ten seconds.
const TetherTime = 15 * time.Second

// Tether runs a command that must not outlive the process at the other end of
// stdin. The name of the command is args[0]. At the first byte of stdin, Tether
// interrupts the command and everything that it started, and kills them after
// the grace time. At the end of stdin it kills them at once. The operating
// system closes stdin when the other process is killed, so no process is left
// behind.
//
// It returns the exit code of a command that ended on its own, at least 1, and
// 0 for a command that was stopped.
func Tether(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, grace time.Duration) (code int, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout = stdout
	cmd.Stderr = stderr
	cmd.WaitDelay = time.Second // processes that it leaves behind may hold its output
	inOwnGroup(cmd)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", args[0], err)
	}
	ended := make(chan struct{})
	go func() { // waited for below
		cmd.Wait() // the exit code is read from the process state
		close(ended)
	}()
	asked, closed := make(chan struct{}), make(chan struct{})
	go func() { // ends with this process at the latest
		if _, err := stdin.Read(make([]byte, 1)); err == nil {
			close(asked)
			io.Copy(io.Discard, stdin) // a read error is treated as the end
		}
		close(closed)
	}()

	select {
	case <-ended:
		killGroup(cmd) // the processes that it left behind
		// A program that was ended by a signal has no exit code.
		return max(cmd.ProcessState.ExitCode(), 1), nil
	case <-asked:
		interruptGroup(cmd)
	case <-ctx.Done():
		interruptGroup(cmd)
	case <-closed: // kill at once
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-closed:
	case <-timer.C:
	}
	killGroup(cmd)
	<-ended
	return 0, nil
}
