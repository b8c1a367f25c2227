// Handler is the Kennel app: the custom handler that the Azure Functions host
// starts, one process per instance. It connects the packages that do the jobs
// to the host on one side and to storage on the other. It has one thin file per
// resource; app.go wires them, and errors.go maps their errors to answers.
//
// It answers the host as soon as the port is open, and no answer needs a request
// to storage that was sent before. So it starts while storage is down and
// recovers without a restart. Without invocations it only writes its row of the
// instance table, twice a minute.
//
// If its host ends without it, as by SIGKILL, it stops within five seconds.
//
// Exit codes: 0 after SIGINT or SIGTERM, or after its host ended; 1 if it could
// not start, or a part of it failed; 2 for unknown arguments. The host restarts
// it after 1, and never after 0.
//
// `handler worker` processes the queues without a Functions host (worker.go).
// `handler probe` reports by its exit code whether a worker lives (health.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/version"
)

const usageText = `Usage:
  handler                            serve a Functions host, which starts it
  handler worker [--listen ADDRESS]  process the queues without a host
  handler probe [--listen ADDRESS]   request /healthz of a worker; exit code 0 if it lives, 1 if not

The settings come from the environment, see docs/operations.md. A probe needs none.

A worker serves GET /healthz, /readyz and /metrics at ADDRESS (default ` + defaultProbes + `),
and at a loopback address also the console: /api/console.
SIGTERM or SIGINT ends it in order, a second one at once.
`

func main() { os.Exit(execute(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

// execute runs the program that the arguments request, and returns the exit
// code.
func execute(args, environ []string, stdout, stderr io.Writer) int {
	command := "" // serve a host
	if len(args) > 0 && (args[0] == "worker" || args[0] == "probe") {
		command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("handler", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	address := ""
	if command != "" {
		flags.StringVar(&address, "listen", defaultProbes, "")
	}
	err := flags.Parse(args)
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("unknown argument %q", flags.Arg(0))
	case command != "" && address == "":
		err = errors.New("the address after --listen is empty")
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usageText)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "kennel handler: %v; see handler --help\n", err)
		return 2
	}
	if command != "probe" {
		raiseHeapFloor(environment(environ))
	}
	stdout, stderr = newRedacted(stdout, environ), newRedacted(stderr, environ)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
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
		err = withLog(environ, stdout, stderr, func(cfg config.Config, log *slog.Logger) error { return runWorker(working, cfg, address, log) })
	default:
		err = withLog(environ, stdout, stderr, func(cfg config.Config, log *slog.Logger) error { return runApp(ctx, cfg, log) })
	}
	if err != nil {
		// Stderr, because the host keeps its last lines for the crash message.
		fmt.Fprintln(stderr, "kennel handler:", err)
		return 1
	}
	return 0
}

// withLog runs a program with its settings and its log.
func withLog(environ []string, stdout, stderr io.Writer, run func(config.Config, *slog.Logger) error) error {
	cfg, err := config.Load(environment(environ))
	if err != nil {
		return err
	}
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	repeats := customhandler.NewRepeats(customhandler.SplitBySeverity(slog.NewJSONHandler(stdout, options), slog.NewJSONHandler(stderr, options)))
	defer repeats.Flush()
	return run(cfg, slog.New(customhandler.NewLogHandler(repeats)))
}

// runApp serves a Functions host until ctx ends.
func runApp(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	// Open the port first: the host then knows that this process is alive while
	// the rest starts.
	listener, err := customhandler.Listen(cfg.Port)
	if err != nil {
		return err
	}
	if cfg.PortFromDefault {
		log.Warn("FUNCTIONS_CUSTOMHANDLER_PORT is not set; using the development port. Use `kennel up` to run the whole app", "port", cfg.Port)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if !cfg.PortFromDefault { // started by a host
		// The id is read now: later the host may be gone.
		go watchParent(ctx, os.Getppid(), os.Getppid, func() {
			endWithin()
			log.Warn("the functions host has ended; stopping")
			stop()
		})
	}
	a, err := newApp(cfg, log)
	if err != nil {
		listener.Close()
		return err
	}
	traces := openTraces(cfg, instances.Functions, a.name, log)
	defer traces.Close() // last, with the spans of the rest
	log.Info("ready", "address", listener.Addr().String(), "version", version.Read().Version)
	err = a.run(traces.Context(ctx), listener)

	// No invocation is running now, so the jobs can release what they hold.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Drain)
	defer cancel()
	if closeErr := a.close(closing); closeErr != nil {
		log.Warn("cannot close cleanly", "error", closeErr)
	}
	log.Info("stopped")
	return err
}

func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, setting := range environ {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = value
	}
	return env
}
