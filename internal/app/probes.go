package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/loopback"
	"kennel/internal/metrics"
)

// Probes report to a platform whether a worker lives, and whether it receives
// messages.
type Probes struct {
	Metrics func(context.Context) []byte // of this process
	Console http.Handler                 // of the console; nil: others than this machine reach the worker
	Begun   <-chan struct{}              // closed when the program has started; nil: it has nothing to start

	mu       sync.Mutex
	reached  bool  // a receive was answered
	err      error // of the last receive
	stopping bool
}

// maxConsoleCall is longer than any call of the API takes.
const maxConsoleCall = 4 * time.Minute

// Received notes how a receive ended.
func (p *Probes) Received(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached, p.err = p.reached || err == nil, err
}

// Stop notes that the worker stops, so that it is not ready any more.
func (p *Probes) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
}

// unready returns why the worker does not receive messages; "" if it does.
func (p *Probes) unready() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	begun := p.Begun == nil
	select {
	case <-p.Begun:
		begun = true
	default:
	}
	switch {
	case p.stopping:
		return "the worker is stopping"
	case !begun:
		return "the program has not started"
	case p.err != nil:
		return p.err.Error()
	case !p.reached:
		return "storage did not respond yet"
	}
	return ""
}

// ServeHTTP serves GET /healthz, which sends no request, so that a platform
// does not restart workers while storage is down, GET /readyz, GET /metrics and
// the console.
func (p *Probes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := struct {
		Status string `json:"status"`
		Reason string `json:"reason,omitempty"`
	}{Status: "ok"}
	customhandler.SetStanding(w.Header())
	code := http.StatusOK
	if p.Console != nil && r.URL.Path == "/metrics" { // the console has rules of its own
		if refusal := loopback.Refusal(r); refusal != "" {
			w.Header()["Content-Type"] = edge.JsonType
			w.WriteHeader(http.StatusForbidden)
			answer.Status, answer.Reason = "forbidden", refusal
			_ = json.NewEncoder(w).Encode(answer)
			return
		}
	}
	switch {
	case p.Console != nil && isConsole(r.URL.Path):
		// Some calls take longer than the answers of probes may. This fails only on
		// a writer without deadlines, as in tests.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxConsoleCall))
		p.Console.ServeHTTP(w, r)
		return
	case r.URL.Path != "/healthz" && r.URL.Path != "/readyz" && r.URL.Path != "/metrics":
		code, answer.Status, answer.Reason = http.StatusNotFound, "not found", "a worker serves /healthz, /readyz and /metrics, and at a loopback address "+edge.ConsoleBase
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		code, answer.Status, answer.Reason = http.StatusMethodNotAllowed, "not allowed", "use GET"
	case r.URL.Path == "/metrics":
		w.Header().Set("Content-Type", metrics.ContentType)
		w.Write(p.Metrics(r.Context()))
		return
	case r.URL.Path == "/readyz":
		if answer.Reason = p.unready(); answer.Reason != "" {
			code, answer.Status = http.StatusServiceUnavailable, "not ready"
		}
	}
	w.Header()["Content-Type"] = edge.JsonType
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

// isConsole reports whether a path is that of the console.
func isConsole(path string) bool {
	return path == edge.ConsoleBase || strings.HasPrefix(path, edge.ConsoleBase+"/")
}

// serve serves the probes until ctx ends.
func (p *Probes) serve(ctx context.Context, l net.Listener, log *slog.Logger) error {
	server := &http.Server{
		Handler: p, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serve the probes on %s: %w", l.Addr(), err)
	}
	return nil
}
