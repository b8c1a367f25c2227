package parts

import (
	"log/slog"
	"testing"

	"kennel/internal/app"
	"kennel/internal/config"
	"kennel/internal/edge"
	"kennel/internal/program"
)

// routes returns all routes of the API.
func routes(t testing.TB) []edge.Route {
	t.Helper()
	cfg, err := config.Load(map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := newApp(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return a.Routes
}

// newApp wires the app behind a Functions host.
func newApp(cfg config.Config, log *slog.Logger) (*app.Program, error) {
	d := &program.Declared{Name: "kennel"}
	d.UseAll()
	r, err := Open(cfg, d, Outside{}, nil, log)
	if err != nil {
		return nil, err
	}
	return r.Program, nil
}
