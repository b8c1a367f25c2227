package parts

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"kennel/internal/app"
	"kennel/internal/config"
	"kennel/internal/program"
)

// Outside is what a process has from outside.
type Outside struct {
	Environ        []string
	Stdout, Stderr io.Writer

	// For tests.
	Transport *http.Client  // of requests to storage; nil: the default
	NewID     func() string // of messages; nil: random ones
}

// TraceOpener opens the exporter of a process of this kind and name.
type TraceOpener func(cfg config.Config, kind, name string, log *slog.Logger) app.Traces

// Main runs a declared program as args request, until ctx ends, and returns the
// exit code of app.Main. It calls started before the first attempt or request.
func Main(ctx context.Context, d *program.Declared, traces TraceOpener, started func(*Running), args []string, outside Outside) int {
	if len(args) == 1 && args[0] == "describe" {
		if _, err := outside.Stdout.Write(d.Describe().Text()); err != nil {
			fmt.Fprintf(outside.Stderr, "%s: describe: %v\n", app.BinaryName(), err)
			return 1
		}
		return 0
	}
	return app.Main(ctx, args, outside.Environ, outside.Stdout, outside.Stderr, func(cfg config.Config, received func(error), log *slog.Logger) (*app.Program, error) {
		r, err := Open(cfg, d, outside, received, log)
		if err != nil {
			return nil, err
		}
		if traces != nil {
			r.Program.Trace = func(kind, name string) app.Traces { return traces(cfg, kind, name, log) }
		}
		started(r)
		return r.Program, nil
	})
}

// OpenForTest opens a declared program in a test, behind a host. It starts
// nothing.
func OpenForTest(d *program.Declared, outside Outside) (r *Running, err error) {
	err = app.WithLog(outside.Environ, outside.Stdout, outside.Stderr, func(cfg config.Config, log *slog.Logger) (err error) {
		r, err = Open(cfg, d, outside, nil, log)
		return err
	})
	return r, err
}
