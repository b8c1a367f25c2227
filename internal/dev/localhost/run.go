package localhost

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Run serves the app until the context ends, which is no error, or until something stops the host: ErrCrashed,
// ErrNeverReady, a handler that cannot be started. It closes the listener. At the end the listeners stop, the invocations in flight get ten seconds, and the handler is killed; nothing is left running.
func (h *Host) Run(ctx context.Context) error {
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
	go func() { served <- server.Serve(h.listener) }()

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

// URL is where the host listens, such as http://127.0.0.1:7071.
func (h *Host) URL() string { return "http://" + h.listener.Addr().String() }

// supervise keeps the handler running; an app without functions has none.
func (h *Host) supervise(taking, work context.Context) error {
	if h.handler == nil {
		<-work.Done()
		return nil
	}
	return h.handler.run(taking, work)
}
