// Package otlp exports the traces of a program by OTLP, as the standard settings
// OTEL_EXPORTER_OTLP_* say. It is a package of its own because the exporter and
// the SDK of traces are a part of the binary only where they are wanted.
package otlp

import (
	"log/slog"

	"kennel"
	"kennel/internal/app"
	"kennel/internal/config"
	"kennel/internal/inside"
	"kennel/internal/telemetry"
	exporter "kennel/internal/telemetry/otlp"
	"kennel/internal/version"
)

// Enable has a program export its traces where the settings name a receiver.
func Enable(a *kennel.App) {
	inside.UseTraces(a, func(cfg config.Config, kind, name string, log *slog.Logger) app.Traces {
		build := version.Read().Version
		return telemetry.Open(exporter.FromEnvironment(cfg.OpenTelemetry, "kennel/"+build, log), telemetry.Process{Version: build, Instance: name, Kind: kind}, log)
	})
}
