// Handler is the Kennel app: the custom handler that the Azure Functions host
// starts, one process per instance. Here are only its main and its processors of
// batches: package parts assembles it, and package app runs it.
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
// `handler worker` processes the queues without a Functions host.
// `handler probe` reports by its exit code whether a worker lives.
package main

import (
	"io"
	"log/slog"
	"os"

	"kennel/internal/app"
	"kennel/internal/config"
	"kennel/internal/parts"
	"kennel/internal/telemetry"
	"kennel/internal/telemetry/otlp"
	"kennel/internal/version"
)

func main() { os.Exit(execute(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

// execute runs the app as the arguments request, and returns the exit code.
func execute(args, environ []string, stdout, stderr io.Writer) int {
	return app.Main(args, environ, stdout, stderr, func(cfg config.Config, received func(error), log *slog.Logger) (*app.Program, error) {
		program, err := parts.Kennel(cfg, newProcessors, received, log)
		if err != nil {
			return nil, err
		}
		program.Trace = func(kind, name string) app.Traces {
			build := version.Read().Version
			exporter := otlp.FromEnvironment(cfg.OpenTelemetry, "kennel/"+build, log)
			return telemetry.Open(exporter, telemetry.Process{Version: build, Instance: name, Kind: kind}, log)
		}
		return program, nil
	})
}
