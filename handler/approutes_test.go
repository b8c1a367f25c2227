package main

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"kennel/internal/config"
	"kennel/internal/edge"
	"kennel/internal/parts"
	"kennel/internal/program"
)

// appRoutes returns the routes of the app.
func appRoutes(t *testing.T) []edge.Route {
	t.Helper()
	cfg, err := config.Load(map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"})
	if err != nil {
		t.Fatal(err)
	}
	d := &program.Declared{Name: "kennel"}
	d.UseAll()
	r, err := parts.Open(cfg, d, parts.Outside{}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r.Program.Routes
}

// execute runs the app in this process, and returns its exit code.
func execute(args, environ []string, stdout, stderr io.Writer) int {
	d := &program.Declared{Name: "kennel"}
	d.UseAll()
	return parts.Main(context.Background(), d, nil, func(*parts.Running) {}, args, parts.Outside{Environ: environ, Stdout: stdout, Stderr: stderr})
}
