package localhost

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// A Request is an HTTP request that the host has answered.
type Request struct {
	Method   string
	Path     string // escaped; without the query, which may contain a key
	Status   int
	Duration time.Duration
}

// A statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// isReady reports whether the handler was ready once, or cannot be started.
// Later requests wait while it is restarted, as in the real host.
func (h *Host) isReady() bool {
	select {
	case <-h.ready:
		return true
	default:
		return false
	}
}

// Starting answers a request to an app that is not ready yet: 503, to be
// repeated in a second. The status of the host is Starting.
func Starting(w http.ResponseWriter, r *http.Request) {
	if strings.EqualFold(r.URL.Path, "/admin/host/status") {
		writeJSON(w, http.StatusOK, hostStatus{ID: "localhost", State: "Starting"})
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	// A write fails only if the client has disconnected.
	_, _ = io.WriteString(w, `{"error":{"code":"starting","message":"The app is starting. Send the request again."}}`+"\n")
}
