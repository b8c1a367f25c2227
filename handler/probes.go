package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"kennel/internal/customhandler"
	"kennel/internal/loopback"
	"kennel/queue"
)

// probes report to a platform whether a worker lives, and whether it receives
// messages.
type probes struct {
	metrics http.Handler // of /metrics
	console http.Handler // of the console; nil: others than this machine reach the worker

	mu       sync.Mutex
	reached  bool  // a receive was answered
	err      error // of the last receive
	stopping bool
}

// probedStore observes the receives of a listener.
type probedStore struct {
	queue.Store
	probes *probes
}

// Receive implements [queue.Receiver].
func (s probedStore) Receive(ctx context.Context, name string, max int, visibility time.Duration) ([]queue.Message, error) {
	messages, err := s.Store.Receive(ctx, name, max, visibility)
	s.probes.received(err)
	return messages, err
}

func (p *probes) received(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached, p.err = p.reached || err == nil, err
}

func (p *probes) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
}

// unready returns why the worker does not receive messages; "" if it does.
func (p *probes) unready() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopping:
		return "the worker is stopping"
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
func (p *probes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := struct {
		Status string `json:"status"`
		Reason string `json:"reason,omitempty"`
	}{Status: "ok"}
	customhandler.SetStanding(w.Header())
	code := http.StatusOK
	if p.console != nil && r.URL.Path == "/metrics" { // the console has rules of its own
		if refusal := loopback.Refusal(r); refusal != "" {
			w.Header()["Content-Type"] = jsonType
			w.WriteHeader(http.StatusForbidden)
			answer.Status, answer.Reason = "forbidden", refusal
			_ = json.NewEncoder(w).Encode(answer)
			return
		}
	}
	switch {
	case p.console != nil && isConsole(r.URL.Path):
		p.console.ServeHTTP(w, r)
		return
	case r.URL.Path != "/healthz" && r.URL.Path != "/readyz" && r.URL.Path != "/metrics":
		code, answer.Status, answer.Reason = http.StatusNotFound, "not found", "a worker serves /healthz, /readyz and /metrics, and at a loopback address "+consoleBase
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		code, answer.Status, answer.Reason = http.StatusMethodNotAllowed, "not allowed", "use GET"
	case r.URL.Path == "/metrics":
		p.metrics.ServeHTTP(w, r)
		return
	case r.URL.Path == "/readyz":
		if answer.Reason = p.unready(); answer.Reason != "" {
			code, answer.Status = http.StatusServiceUnavailable, "not ready"
		}
	}
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

// serve serves the probes until ctx ends.
func (p *probes) serve(ctx context.Context, l net.Listener, log *slog.Logger) error {
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
