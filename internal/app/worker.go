package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"kennel/internal/config"
	"kennel/internal/instances"
	"kennel/internal/version"
)

// defaultProbes is where a worker serves its health.
const defaultProbes = "127.0.0.1:8080"

// runWorker does the work of the parts without a Functions host, until ctx ends.
// It serves no part of the API, but the console where only this machine reaches
// it.
func runWorker(ctx context.Context, cfg config.Config, address string, build Builder, log *slog.Logger) error {
	port, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("open the port of /healthz, /readyz and /metrics; choose another one with --listen: %w", err)
	}
	probes := &Probes{}
	a, err := build(cfg, probes.Received, log)
	if err != nil {
		port.Close()
		return err
	}
	probes.Metrics, probes.Begun = a.members.Metrics, a.Begun
	if onLoopback(port) {
		probes.Console = a.Host
	}
	log.Info("ready", "kind", instances.Worker, "address", port.Addr().String(), "queues", strings.Join(a.Queues, ","), "version", version.Read().Version)
	ctx, end := a.traced(ctx, instances.Worker)
	defer end()
	err = a.Work(ctx, probes.Stop, func(ctx context.Context) error { return probes.serve(ctx, port, log) })
	if closeErr := a.Close(context.WithoutCancel(ctx)); closeErr != nil { // each part limits itself
		log.Warn("cannot close cleanly", "error", closeErr)
	}
	log.Info("stopped")
	return err
}

// onLoopback reports whether only this machine reaches a listener.
func onLoopback(l net.Listener) bool {
	address, ok := l.Addr().(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}
