// Kennel is the command line of the app: it runs the app on this machine and
// packs it for Azure. Against an app anywhere, it draws order numbers, releases
// and closes gates, submits batches, manages channels, sends messages, and
// redrives dead letters.
//
// Only results go to standard output. Progress, warnings and errors go to
// standard error, so that every command works in a pipe.
// With --json the result is JSON, and so is an error.
//
// The overview of "kennel help" documents the exit codes.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		received := <-signals
		// Stop catching signals before the first Ctrl+C is handled, so that a
		// second one ends this program immediately. The programs that it has
		// started detect that and end too.
		signal.Stop(signals)
		cancel(interrupted{received})
	}()
	os.Exit(run(ctx, os.Args, environment(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program. args starts with the program's name. It returns the
// exit code.
func run(ctx context.Context, args []string, env map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	con := newConsole(args, env, stdin, stdout, stderr)
	cmd, err := con.rootCommand().ExecuteContextC(ctx)
	if err == nil {
		err = con.helpErr
	}
	if err == nil {
		return exitDone
	}
	return con.fail(ctx, cmd, err)
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
