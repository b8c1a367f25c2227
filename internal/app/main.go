package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"kennel/internal/config"
	"kennel/internal/customhandler"
)

// usageText has the name of the binary in place of %[1]s.
const usageText = `Usage:
  %[1]s                            serve a Functions host, which starts it
  %[1]s worker [--listen ADDRESS]  work on queues and timers without a host
  %[1]s probe [--listen ADDRESS]   request /healthz of a worker; exit code 0 if it lives, 1 if not
  %[1]s describe                   print what the program consists of, as JSON

The settings come from the environment. A probe and describe need none.

A worker serves GET /healthz, /readyz and /metrics at ADDRESS (default ` + defaultProbes + `),
and at a loopback address also the console: /api/console.
SIGTERM or SIGINT ends it in order, a second one at once.
`

// BinaryName returns the name of the file of this process, with which its
// messages begin.
func BinaryName() string { return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") }

// Main runs the program as the arguments request, except describe alone, which
// its caller serves, until ctx ends. It returns the exit code: 0 after SIGINT or
// SIGTERM, or after its host ended; 1 if it could not start, or a part of it
// failed; 2 for unknown arguments. The host restarts it after 1, and never after
// 0.
func Main(ctx context.Context, args, environ []string, stdout, stderr io.Writer, build Builder) int {
	command := "" // serve a host
	if len(args) > 0 && (args[0] == "worker" || args[0] == "probe" || args[0] == "describe") {
		command, args = args[0], args[1:]
	}
	name := BinaryName()
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	address := ""
	if command == "worker" || command == "probe" {
		flags.StringVar(&address, "listen", defaultProbes, "")
	}
	err := flags.Parse(args)
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("unknown argument %q", flags.Arg(0))
	case command == "describe":
		err = errors.New("use describe without other arguments")
	case command != "" && address == "":
		err = errors.New("the address after --listen is empty")
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, usageText, name)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v; see %[1]s --help\n", name, err)
		return 2
	}
	if command != "probe" {
		raiseHeapFloor(settingsOf(environ))
	}
	stdout, stderr = NewRedacted(stdout, environ), NewRedacted(stderr, environ)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch command {
	case "probe":
		err = requestHealth(ctx, address)
	case "worker":
		// A second signal ends a worker at once. The worker begins to stop only
		// when the signals have their default action again, so that one sent
		// after it reports the stop is not lost.
		working, cancel := context.WithCancel(context.Background())
		defer cancel()
		context.AfterFunc(ctx, func() { stop(); cancel() })
		err = WithLog(environ, stdout, stderr, func(cfg config.Config, log *slog.Logger) error { return runWorker(working, cfg, address, build, log) })
	default:
		err = WithLog(environ, stdout, stderr, func(cfg config.Config, log *slog.Logger) error { return runApp(ctx, cfg, build, log) })
	}
	if err != nil {
		// Stderr, because the host keeps its last lines for the crash message.
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// WithLog runs a program with its settings and its log.
func WithLog(environ []string, stdout, stderr io.Writer, run func(config.Config, *slog.Logger) error) error {
	cfg, err := config.Load(settingsOf(environ))
	if err != nil {
		return err
	}
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	ours := []slog.Attr{slog.String(customhandler.LoggerKey, customhandler.Logger)}
	repeats := customhandler.NewRepeats(customhandler.SplitBySeverity(slog.NewJSONHandler(stdout, options), slog.NewJSONHandler(stderr, options)).WithAttrs(ours))
	defer repeats.Flush()
	return run(cfg, slog.New(customhandler.NewLogHandler(repeats)))
}

func settingsOf(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, setting := range environ {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = value
	}
	return env
}
