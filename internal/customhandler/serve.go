package customhandler

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kennel/internal/loopback"
)

// Listen opens the port that the host has chosen, on the IPv4 loopback address,
// which is the only one that the host connects to. Call it before anything that
// takes time.
func Listen(port int) (net.Listener, error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s for the Functions host: %w", address, err)
	}
	return l, nil
}

// ownPort refuses what a page of another site may have sent to the port of the
// handler itself, past the Functions host, which asks for keys and, on a
// developer's machine, refuses such pages. A browser says where a call comes from,
// and a call that the host forwarded has the host's header, which a page of
// another origin cannot add. If a name of the page's own leads to this port, its
// origin is the same one: then that name with this port is the call's host.
// Envelopes have other marks, see isEnvelope.
type ownPort struct {
	app *App
	own string // ":" and the port
}

func (p ownPort) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rebound := strings.HasSuffix(r.Host, p.own) && !loopback.IsHost(r.Host)
	forwarded := len(r.Header[headerInvocationID]) > 0
	if rebound || !forwarded && loopback.FromForeignSite(r) {
		SetStanding(w.Header())
		writeError(w, &Error{http.StatusForbidden, "foreign_caller",
			"This is the port of the handler, which only the Functions host calls. Call the port of the host."})
		return
	}
	p.app.ServeHTTP(w, r)
}

// Serve serves l until ctx ends, whose values the contexts of invocations have.
// Then it accepts no new calls, waits at most Options.Drain for the running
// ones, cancels the rest and returns nil. After an error, exit with a status
// other than 0, because the host does not restart a process that exits with 0.
// (It restarts after status 200 without counting a crash.)
func (a *App) Serve(ctx context.Context, l net.Listener) error {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	server := &http.Server{
		Handler:     ownPort{a, ":" + port},
		ErrorLog:    slog.NewLogLogger(a.opt.Log.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },

		// No ReadTimeout and no WriteTimeout: each invocation has its own limit,
		// which may be long. The host reuses its connections; closing idle ones
		// early would race with its next call.
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    maxHeaderBytes,
		IdleTimeout:       5 * time.Minute,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.opt.Drain)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		a.opt.Log.Warn("invocations were canceled by the stop; the host delivers their messages again", "after", a.opt.Drain)
		_ = server.Close()
	}
	<-served
	return nil
}
