// Handler is the Kennel app: the custom handler that the Azure Functions host
// starts, one process per instance. It joins the packages that do the jobs to
// the host on one side and to storage on the other, and holds no logic of its
// own: one thin file per function.
//
// It answers the host as soon as the port is open and asks nothing of storage
// before the first invocation, so it starts while storage is down and recovers
// by itself.
//
// Exit codes: 0 after SIGINT or SIGTERM, 1 when it could not start or serving
// ended by itself. The host starts it again after 1, and never after 0.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"kennel/internal/config"
	"kennel/internal/customhandler"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Environ(), os.Stdout); err != nil {
		// Stderr, because the host keeps its last lines for the crash message.
		fmt.Fprintln(os.Stderr, "kennel handler:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, environ []string, stdout io.Writer) error {
	cfg, err := config.Load(environment(environ))
	if err != nil {
		return err
	}
	log := slog.New(customhandler.NewLogHandler(slog.NewJSONHandler(stdout, &slog.HandlerOptions{Level: cfg.LogLevel})))

	// The port first: everything after it happens while the host already knows
	// that this process is alive.
	listener, err := customhandler.Listen(cfg.Port)
	if err != nil {
		return err
	}
	if cfg.PortFromDefault {
		log.Warn("no Functions host has said which port to use: this is the development port; run `kennel up` for the whole app", "port", cfg.Port)
	}
	return serve(ctx, cfg, log, listener)
}

func serve(ctx context.Context, cfg config.Config, log *slog.Logger, listener net.Listener) error {
	a, err := newApp(cfg, log)
	if err != nil {
		listener.Close()
		return err
	}
	log.Info("ready", "address", listener.Addr().String())
	err = a.run(ctx, listener)

	// No invocation runs any more, so what was reserved can be given back.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Drain)
	defer cancel()
	if closeErr := a.close(closing); closeErr != nil {
		log.Warn("numbers that were reserved and not issued are lost, which leaves a gap and does no harm", "error", closeErr)
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
