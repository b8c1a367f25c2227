package customhandler

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"
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

// Serve serves l until ctx ends, whose values the contexts of invocations have.
// Then it accepts no new calls, waits at most Options.Drain for the running
// ones, cancels the rest and returns nil. After an error, exit with a status
// other than 0, because the host does not restart a process that exits with 0.
// (It restarts after status 200 without counting a crash.)
func (a *App) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:     a,
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
