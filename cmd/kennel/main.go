// Kennel is the command line of the app: it runs the app on this machine,
// packs it for Azure, draws order numbers from it, works its gates and keeps its
// channels wherever it runs.
//
// Results go to standard output, and only results: what a command has to say
// beside them (progress, warnings, errors) goes to standard error, so that
// every command can stand in a pipe. With --json the result is JSON.
//
// Kennel ends with 0 when it did what was asked, with 1 when it could not,
// and with 2 when it did not understand what was asked. A wait that was over
// before its gate was released ends with 3.
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
		// Before anybody reacts to the first Ctrl+C, the next one gets back its
		// usual meaning: it ends this program at once. What this program has
		// started notices that by itself and ends too.
		signal.Stop(signals)
		cancel()
	}()
	os.Exit(run(ctx, os.Args, environment(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program: the arguments with the program's name in front,
// the environment, the three streams, and back the exit code.
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

// Exit codes, as "kennel help" and the package comment promise them.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitShut   = 3 // of "kennel gate wait" alone
)

// exitCode ends the program with a code and without a word.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError says what is wrong with the command line itself; the program
// ends with exitUsage.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error {
	return usageError(fmt.Sprintf(format, args...))
}

// A command is one word after "kennel": what it is called, what help says
// about it, its flags, and what it does.
type command struct {
	name     string
	hidden   bool   // for kennel's own use
	synopsis string // its arguments, for the usage line
	summary  string // one line, for the list of commands
	about    string // what it does and what to expect, for somebody new to it
	example  string // a line or two to try
	exits    string // what its exit codes mean

	flags   *flag.FlagSet // bound to the variables that run reads
	mixed   bool          // flags may stand behind words, too
	maxArgs int           // how many words there may be beside the flags
	run     func(ctx context.Context, con *console, args []string) error
}

// commands lists every command, in the order of the help. Each call makes new
// ones, because flags are bound to variables.
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
		return usagef("say what to do: kennel <command>")
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

	cmd.flags.SetOutput(io.Discard) // its errors are shown our way, below
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

// parse reads the flags and returns the words beside them.
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

// doubleDash writes flags the way help does: package flag takes one dash and
// two alike, and names them with one.
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
