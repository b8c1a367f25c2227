package localhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Run serves the app until the context ends, which is no error, or until something stops the host: ErrCrashed,
// ErrNeverReady, a handler that cannot be started, an address that cannot be listened on. At the end the listeners
// stop, the invocations in flight get ten seconds, and the handler is killed; nothing is left running.
func (h *Host) Run(ctx context.Context) error {
	listener, err := h.open()
	if err != nil {
		return err
	}
	// The host has two contexts: taking ends when it stops taking work, work when the work in flight must end.
	taking, stopTaking := context.WithCancel(ctx)
	defer stopTaking()
	work, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()

	supervised := make(chan error, 1)
	go func() {
		err := h.supervise(taking, work)
		endWork() // without a handler nothing in flight can succeed
		supervised <- err
	}()

	server := &http.Server{
		Handler:           h.handleHTTP(work),
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	var listeners sync.WaitGroup
	listeners.Go(func() { h.announce(taking) })
	for _, l := range h.listeners {
		listeners.Go(func() { l.run(taking, work) })
	}
	for _, l := range h.timers {
		listeners.Go(func() { l.run(taking, work) })
	}

	var failure error
	patience := stopGrace
	supervising, serving := true, true
	select {
	case <-ctx.Done():
	case failure = <-supervised:
		supervising = false
		patience = flushTime // all that is in flight ends now
	case failure = <-served:
		serving = false
	}
	stopTaking()

	drained := make(chan struct{})
	go func() {
		defer close(drained)
		listeners.Wait()
		h.visits.close()
	}()
	grace := time.NewTimer(patience)
	defer grace.Stop()
	select {
	case <-drained:
		// The last answers are written but perhaps not sent.
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		_ = server.Shutdown(flush)
		cancel()
	case <-grace.C:
		h.out.say("Invocations are still running after %s: they are cut short.", formatTimeSpan(patience))
	}
	endWork()
	if supervising {
		failure = errors.Join(failure, <-supervised)
	}
	_ = server.Close() // ends what still reads a request body
	if serving {
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			failure = errors.Join(failure, err)
		}
	}
	<-drained
	return failure
}

// Ready is closed once the host serves and its handler has answered. Without functions there is no handler to
// wait for.
func (h *Host) Ready() <-chan struct{} { return h.ready }

// URL is where the host listens, such as http://127.0.0.1:7071. Before Run it is what was asked for.
func (h *Host) URL() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.url != "" {
		return h.url
	}
	if h.listener != nil {
		return "http://" + h.listener.Addr().String()
	}
	return "http://" + h.addr
}

// Addr is the host and port of URL.
func (h *Host) Addr() string { return strings.TrimPrefix(h.URL(), "http://") }

func (h *Host) open() (net.Listener, error) {
	listener := h.listener
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", h.addr); err != nil {
			return nil, fmt.Errorf("%w: is another host running? stop it, or choose another address", err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.url = "http://" + listener.Addr().String()
	return listener, nil
}

// supervise keeps the handler running; an app without functions has none.
func (h *Host) supervise(taking, work context.Context) error {
	if h.handler == nil {
		<-work.Done()
		return nil
	}
	h.handler.launcher.env["WEBSITE_HOSTNAME"] = h.Addr()
	return h.handler.run(taking, work)
}
