package api

import (
	"context"
	"net/http"

	"kennel/internal/edge"
	"kennel/internal/observe"
)

// Health serves GET /api/health: the process is up. It makes no request, so
// that a platform does not restart healthy processes while storage is down.
func Health(w http.ResponseWriter, r *http.Request) {
	w.Header()["Content-Type"] = edge.JsonType
	w.Write([]byte("{\"status\":\"ok\"}\n"))
}

// ServeStatus serves GET /api/status. The answer is 200 also if the app is
// degraded: callers read the body.
func ServeStatus(read func(context.Context) *observe.Status) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { edge.WriteJSON(w, http.StatusOK, read(r.Context())) })
}
