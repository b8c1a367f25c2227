package app

import (
	"context"
	"log/slog"
	"os"

	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/version"
)

// runApp serves a Functions host until ctx ends.
func runApp(ctx context.Context, cfg config.Config, build Builder, log *slog.Logger) error {
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
	a, err := build(cfg, nil, log)
	if err != nil {
		listener.Close()
		return err
	}
	traced, end := a.traced(ctx, instances.Functions)
	defer end() // last, with the spans of the rest
	log.Info("ready", "address", listener.Addr().String(), "version", version.Read().Version)
	err = a.Run(traced, listener)

	// No invocation is running now, so the jobs can release what they hold.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Drain)
	defer cancel()
	if closeErr := a.Close(closing); closeErr != nil {
		log.Warn("cannot close cleanly", "error", closeErr)
	}
	log.Info("stopped")
	return err
}
