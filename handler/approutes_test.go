package main

import (
	"log/slog"
	"testing"

	"kennel/internal/config"
	"kennel/internal/edge"
	"kennel/internal/parts"
)

// appRoutes returns the routes of the app.
func appRoutes(t *testing.T) []edge.Route {
	t.Helper()
	cfg, err := config.Load(map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := parts.Kennel(cfg, newProcessors, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return a.Routes
}
