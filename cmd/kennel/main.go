// Kennel is the command line of the app: it runs the app on this machine and
// packs it for Azure. Against an app anywhere, it draws order numbers, releases
// and closes gates, and manages channels.
//
// Only results go to standard output. Progress, warnings and errors go to
// standard error, so that every command works in a pipe. With --json the result
// is JSON.
//
// The exit code is 0 if the command succeeded, 1 if it failed, 2 if the command
// line is invalid, and 3 if a gate wait timed out.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		// Stop catching signals before the first Ctrl+C is handled, so that a
		// second one ends this program immediately. The programs that it has
		// started detect that and end too.
		signal.Stop(signals)
		cancel()
	}()
	os.Exit(run(ctx, os.Args, environment(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program. args starts with the program's name. It returns the
// exit code.
func run(ctx context.Context, args []string, env map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	con := newConsole(args, env, stdin, stdout, stderr)
	cmd, err := con.rootCommand().ExecuteContextC(ctx)
	switch {
	case err == nil:
		err = con.helpErr
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	}
	if err == nil {
		return exitDone
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	con.complain(cmd.CommandPath(), err)
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// Exit codes; "kennel help" and the package comment document them.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitClosed = 3 // only "kennel gate wait"
)

// exitCode ends the program with a code and without a message.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError reports an invalid command line. The program ends with exitUsage.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error {
	return usageError(fmt.Sprintf(format, args...))
}

// environment turns "name=value" pairs into a map.
func environment(pairs []string) map[string]string {
	env := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		if name, value, ok := strings.Cut(pair, "="); ok {
			env[name] = value
		}
	}
	return env
}
