package localhost

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Run serves the app until ctx ends, which is not an error, or until the host
// fails, with ErrCrashed or ErrNeverReady. If the handler cannot be started,
// the host runs on and every invocation fails, as in the real host. Run closes
// the listener. At the end it stops the listeners, waits up
// to ten seconds for running invocations, and kills the handler.
func (h *Host) Run(ctx context.Context) error {
	// The host has two contexts: taking ends when it accepts no more work, work
	// when running invocations must end.
	taking, stopTaking := context.WithCancel(ctx)
	defer stopTaking()
	work, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()

	supervised := make(chan error, 1)
	go func() {
		err := h.supervise(taking, work)
		endWork() // without a handler no invocation can succeed
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
	wait := stopGrace
	supervising, serving := true, true
	select {
	case <-ctx.Done():
	case failure = <-supervised:
		supervising = false
		wait = flushTime // all invocations end now
	case failure = <-served:
		serving = false
	}
	stopTaking()
	close(h.stopping)

	drained := make(chan struct{})
	go func() {
		defer close(drained)
		listeners.Wait()
		h.visits.close()
	}()
	grace := time.NewTimer(wait)
	defer grace.Stop()
	select {
	case <-drained:
		// The last responses are written but may not have been sent.
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		_ = server.Shutdown(flush)
		cancel()
	case <-grace.C:
		h.out.say("Invocations are still running after %s and are cancelled.", formatTimeSpan(wait))
	}
	endWork()
	if supervising {
		failure = errors.Join(failure, <-supervised)
	}
	_ = server.Close() // ends requests whose body is still being read
	if serving {
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			failure = errors.Join(failure, err)
		}
	}
	<-drained
	return failure
}

// Ready is closed once the host serves requests and its handler has responded,
// or cannot be started: see [Host.HandlerError]. Without functions there is no
// handler to wait for.
func (h *Host) Ready() <-chan struct{} { return h.ready }

// HandlerError returns why the handler cannot be started, or nil.
func (h *Host) HandlerError() error {
	if h.handler == nil {
		return nil
	}
	return h.handler.startError()
}

// URL returns the address of the host, such as http://127.0.0.1:7071.
func (h *Host) URL() string { return "http://" + h.listener.Addr().String() }

// supervise keeps the handler running; an app without functions has none.
func (h *Host) supervise(taking, work context.Context) error {
	if h.handler == nil {
		<-work.Done()
		return nil
	}
	return h.handler.run(taking, work)
}
