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

// Listen opens the port the host has chosen, where the host looks for it: on the IPv4 loopback address and nowhere
// else. Do it before anything that takes time.
func Listen(port int) (net.Listener, error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s, where the Functions host expects this process: %w", address, err)
	}
	return l, nil
}

// Serve serves l until ctx ends. Then it takes no new calls, lets the running ones finish for Options.Drain, cuts off
// the rest and returns nil. An error means that serving ended by itself: exit with a status other than 0, which the
// host takes for a wish to stay down. (Status 200 asks to be started again without being counted as a crash.)
func (a *App) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:  a,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),

		// No ReadTimeout and no WriteTimeout: invocations have their own, and they may be long. The host keeps its
		// connections; closing idle ones early would race with its next call.
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.drain)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		a.log.Warn("invocations were cut off: the host will offer their messages again", "after", a.drain)
		_ = server.Close()
	}
	<-served
	return nil
}
