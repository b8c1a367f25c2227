package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// tetherTime is how long a program gets to stop. The Functions host gives ten
// seconds to the functions that are running.
const tetherTime = 15 * time.Second

// tetherCommand is for kennel's own use. It stands between kennel and a
// program that would outlive it. It runs that program until it hears from its
// standard input, of which kennel holds the other end: at a first byte it asks
// the program to stop, and at the end of the input it kills the program, both
// times with everything that the program started. So nothing stays behind when
// kennel itself is killed, for then the operating system ends the input.
func tetherCommand() *command {
	return &command{
		name:     "tether",
		hidden:   true,
		synopsis: "PROGRAM [argument…]",
		summary:  "run a program for as long as standard input is open",
		about:    "Runs a program, stops it at the first byte of standard input and kills it at the end.",
		example:  "kennel tether func start",
		exits:    "0 stopped as asked, else the exit code of the program, 1 it was not started",
		flags:    flag.NewFlagSet("tether", flag.ContinueOnError),
		maxArgs:  1 << 10, // as many as there are
		run: func(ctx context.Context, con *console, args []string) error {
			if len(args) == 0 {
				return usagef("name the program to run")
			}
			return tether(ctx, con, args, tetherTime)
		},
	}
}

// tether runs the program named by args, which gets patience to stop.
func tether(ctx context.Context, con *console, args []string, patience time.Duration) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout = con.stdout
	cmd.Stderr = con.stderr
	cmd.WaitDelay = time.Second // what it leaves behind may hold its output
	inOwnGroup(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", args[0], err)
	}
	ended := make(chan struct{})
	go func() { // waited for below
		cmd.Wait() // the state of the process says all there is to know
		close(ended)
	}()
	asked, letGo := make(chan struct{}), make(chan struct{})
	go func() { // ends with this process at the latest
		if _, err := con.stdin.Read(make([]byte, 1)); err == nil {
			close(asked)
			io.Copy(io.Discard, con.stdin) // an input that cannot be read is as good as ended
		}
		close(letGo)
	}()

	select {
	case <-ended:
		killGroup(cmd) // what it has left behind
		// A program that a signal has ended has no exit code.
		return exitCode(max(cmd.ProcessState.ExitCode(), exitFailed))
	case <-asked:
		interruptGroup(cmd)
	case <-ctx.Done():
		interruptGroup(cmd)
	case <-letGo: // there is nobody left to wait for it
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ended:
	case <-letGo:
	case <-timer.C:
	}
	killGroup(cmd)
	<-ended
	return nil
}
