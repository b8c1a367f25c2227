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
	"flag"
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
	err := dispatch(ctx, con, args)
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	con.complain(err)
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
	exitShut   = 3 // only "kennel gate wait"
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

// A command is one word after "kennel": its name, help texts, flags and
// function.
type command struct {
	name     string
	hidden   bool   // used by kennel itself
	synopsis string // its arguments, for the usage line
	summary  string // one line, for the list of commands
	about    string // what it does and what to expect, for a new user
	example  string // a line or two to try
	exits    string // what its exit codes mean

	flags   *flag.FlagSet // bound to the variables that run reads
	mixed   bool          // flags may follow words
	maxArgs int           // words besides the flags
	run     func(ctx context.Context, con *console, args []string) error
}

// commands lists every command, in the order of the help. Each call creates
// new commands, because flags are bound to variables.
func commands() []*command {
	return []*command{
		upCommand(),
		nextCommand(),
		gateCommand(),
		channelsCommand(),
		blogsCommand(),
		packageCommand(),
		versionCommand(),
		helpCommand(),
		tetherCommand(),
	}
}

// dispatch finds the command, reads its flags and runs it.
func dispatch(ctx context.Context, con *console, args []string) error {
	if len(args) < 2 {
		writeOverview(con.stderr, con)
		return usagef("no command given; use kennel <command>")
	}
	name, rest := args[1], args[2:]
	switch name {
	case "-h", "-help", "--help":
		name, rest = "help", nil
	case "-v", "-version", "--version":
		name, rest = "version", nil
	}
	cmd := findCommand(name)
	if cmd == nil {
		return unknownCommand(name)
	}

	cmd.flags.SetOutput(io.Discard) // dispatch reports its errors
	words, err := cmd.parse(rest)
	switch {
	case errors.Is(err, flag.ErrHelp):
		cmd.writeHelp(con.stdout, con)
		return nil
	case err != nil:
		return usagef("%s: %s; see `kennel help %s`", cmd.name, doubleDash(err.Error()), cmd.name)
	case len(words) > cmd.maxArgs:
		return usagef("%s: unexpected %q; see `kennel help %s`", cmd.name, words[cmd.maxArgs], cmd.name)
	}
	if err := cmd.run(ctx, con, words); err != nil {
		return fmt.Errorf("%s: %w", cmd.name, err)
	}
	return nil
}

// parse reads the flags and returns the other words.
func (c *command) parse(args []string) (words []string, err error) {
	for {
		if err := c.flags.Parse(args); err != nil {
			return nil, err
		}
		args = c.flags.Args()
		if !c.mixed || len(args) == 0 {
			return append(words, args...), nil
		}
		words, args = append(words, args[0]), args[1:]
	}
}

// doubleDash writes flags with two dashes, as help does. Package flag accepts
// both forms and reports flags with one dash.
func doubleDash(message string) string {
	for _, before := range []string{"flag: ", "defined: ", "for flag ", "argument: "} {
		message = strings.Replace(message, before+"-", before+"--", 1)
	}
	return message
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
