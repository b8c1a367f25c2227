package run

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// TetherTime is how long a program gets to stop. The Functions host gives ten
// seconds to the functions that are running.
const TetherTime = 15 * time.Second

// Tether stands between a program that may be killed and another one that would
// outlive it. It runs the command, whose name is args[0], while stdin is open:
// at a first byte it asks the command to stop, and at the end of the input it
// kills it, both times with everything that the command started. So nothing
// stays behind when the holder of the input is killed, because the operating
// system ends the input then.
//
// It returns the exit code of a command that ended by itself, at least 1, and 0
// for one that was stopped. A command that was asked to stop gets the grace time.
func Tether(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, grace time.Duration) (code int, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout = stdout
	cmd.Stderr = stderr
	cmd.WaitDelay = time.Second // what it leaves behind may hold its output
	inOwnGroup(cmd)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", args[0], err)
	}
	ended := make(chan struct{})
	go func() { // waited for below
		cmd.Wait() // the state of the process says all there is to know
		close(ended)
	}()
	asked, letGo := make(chan struct{}), make(chan struct{})
	go func() { // ends with this process at the latest
		if _, err := stdin.Read(make([]byte, 1)); err == nil {
			close(asked)
			io.Copy(io.Discard, stdin) // an input that cannot be read is as good as ended
		}
		close(letGo)
	}()

	select {
	case <-ended:
		killGroup(cmd) // what it has left behind
		// A program that a signal has ended has no exit code.
		return max(cmd.ProcessState.ExitCode(), 1), nil
	case <-asked:
		interruptGroup(cmd)
	case <-ctx.Done():
		interruptGroup(cmd)
	case <-letGo: // there is nobody left to wait for it
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-letGo:
	case <-timer.C:
	}
	killGroup(cmd)
	<-ended
	return 0, nil
}
