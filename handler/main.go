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
// not start, or a part of it failed. The host restarts it after 1, and never
// after 0.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Environ(), os.Stdout, os.Stderr); err != nil {
		// Stderr, because the host keeps its last lines for the crash message.
		fmt.Fprintln(os.Stderr, "kennel handler:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, environ []string, stdout, stderr io.Writer) error {
	cfg, err := config.Load(environment(environ))
	if err != nil {
		return err
	}
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	repeats := customhandler.NewRepeats(customhandler.SplitBySeverity(slog.NewJSONHandler(stdout, options), slog.NewJSONHandler(stderr, options)))
	defer repeats.Flush()
	log := slog.New(customhandler.NewLogHandler(repeats))

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
		go watchParent(ctx, os.Getppid, func() {
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
	log.Info("ready", "address", listener.Addr().String(), "version", version.Read().Version)
	err = a.run(ctx, listener)

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
