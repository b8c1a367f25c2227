package api

import (
	"context"
	"net/http"

	"kennel/internal/edge"
	"kennel/internal/metrics"
)

// ServeMetrics serves GET /api/metrics: the metrics of all live processes.
func ServeMetrics(text func(context.Context) ([]byte, error)) http.Handler {
	return Serve([]Failure{storageUnavailable}, func(r *http.Request) (edge.Reply, error) {
		return edge.Limited(r, func(r *http.Request) (edge.Reply, error) {
			all, err := text(r.Context())
			return edge.Reply{Status: http.StatusOK, Body: edge.Content{Kind: []string{metrics.ContentType}, Bytes: all}}, err
		})
	})
}
