package localhost

import (
	"io"
	"net/http"
	"strings"
	"sync"
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
	body   *steadyBody // of the request
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.body.answer()
	w.ResponseWriter.WriteHeader(status)
}

// maxSilence is how long the host waits for the next byte of a body. Without a
// limit a body that is announced and never comes would hold its call until
// functionTimeout, when the host kills the handler. The web server of the real
// host ends such a request, too.
const maxSilence = 10 * time.Second

// A steadyBody is the body of a request that must not stop before its end.
type steadyBody struct {
	io.ReadCloser
	control *http.ResponseController

	mu       sync.Mutex // the answer can come while the rest still goes to the handler
	ended    bool       // guarded by mu
	answered bool       // guarded by mu
}

func newSteadyBody(w http.ResponseWriter, r *http.Request) *steadyBody {
	return &steadyBody{ReadCloser: r.Body, control: http.NewResponseController(w), ended: r.ContentLength == 0}
}

func (b *steadyBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	b.limit()
	b.mu.Unlock()
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = err != nil
	if err == nil && !b.answered || err == io.EOF { // else net/http must not wait for the rest again
		_ = b.control.SetReadDeadline(time.Time{}) // fails like the call in limit
	}
	return n, err
}

// answer limits the wait for the rest of a short body, which net/http reads
// before it sends an answer.
func (b *steadyBody) answer() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered = true
	b.limit()
}

// limit limits the wait for the next byte, unless there is none. The caller
// holds mu.
func (b *steadyBody) limit() {
	if !b.ended {
		// This fails only on a writer without deadlines, as in tests.
		_ = b.control.SetReadDeadline(time.Now().Add(maxSilence))
	}
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
