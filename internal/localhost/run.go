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

// announce says where the functions are once the handler is ready.
func (h *Host) announce(ctx context.Context) {
	if h.handler != nil {
		if _, err := h.handler.wait(ctx, nil); err != nil {
			return
		}
	}
	close(h.ready)
	for _, e := range h.endpoints {
		methods := strings.Join(e.methods, ",")
		if methods == "" {
			methods = "any method"
		}
		h.out.line(fmt.Sprintf("    %s: [%s] %s/%s", e.function.name, methods, h.URL(), e.route.template))
	}
	for _, f := range h.functions {
		if f.problem == nil && !f.trigger().is("httpTrigger") {
			h.out.line(fmt.Sprintf("    %s: %s", f.name, f.trigger().kind))
		}
	}
	h.out.say("Host started: %s", h.URL())
}

// report says what is wrong or unusual about the app before it starts.
func (h *Host) report(root string, warnings []string) {
	for _, warning := range warnings {
		h.out.say("WARNING: %s", warning)
	}
	for _, key := range h.file.unknown {
		h.out.say("WARNING: this local host does not have %s of host.json and ignores it.", key)
	}
	if runtime, _ := h.env.lookup("FUNCTIONS_WORKER_RUNTIME"); !strings.EqualFold(runtime, "custom") {
		h.out.say("WARNING: the setting FUNCTIONS_WORKER_RUNTIME is not \"custom\": `func` would ask a question or start another runtime.")
	}
	for _, name := range []string{"WEBSITE_TIME_ZONE", "TZ"} {
		if zone, ok := h.env.lookup(name); ok && len(h.timers) > 0 && zone != "" && !strings.EqualFold(zone, "UTC") && !strings.EqualFold(zone, "Etc/UTC") {
			h.out.say("WARNING: the setting %s is %q, but the timers of this local host go by UTC.", name, zone)
		}
	}
	for _, path := range invisible(root) {
		h.out.say("WARNING: %s IS NOT SEEN. The host looks for function.json only in the direct sub-folders of %s, and the real host says nothing about others.", path, root)
	}
	for _, f := range h.functions {
		for _, b := range f.bindings {
			if (b.is("queueTrigger") || b.is("queue")) && b.connection != defaultConnection {
				h.out.say("WARNING: function '%s' names the connection %s, but this local host has one storage for all queues.", f.name, b.connection)
			}
		}
		switch {
		case f.problem != nil:
			for _, line := range problemLines(f) {
				h.out.say("ERROR: function '%s' is left out: %s", f.name, line)
			}
		case f.disabled:
			h.out.say("Function '%s' is disabled.", f.name)
		case f.trigger().is("serviceBusTrigger"):
			h.out.say("WARNING: this local host has no Service Bus: run '%s' with POST /admin/functions/%s.", f.name, f.name)
		}
	}
	if h.handler == nil {
		h.out.say("NO FUNCTION WAS FOUND in the direct sub-folders of %s: the handler is not started, as in the real host.", root)
	}
}

// handleHTTP sends requests to the homepage, the admin API or a function.
func (h *Host) handleHTTP(work context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.visits.enter() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer h.visits.leave()
		path, err := splitPath(r.URL.EscapedPath())
		switch {
		case err != nil:
			w.WriteHeader(http.StatusBadRequest)
		case len(path) > 0 && strings.EqualFold(path[0], "admin"):
			h.serveAdmin(work, w, r, path)
		case len(path) > 0 && strings.EqualFold(path[0], "runtime"):
			w.WriteHeader(http.StatusNotFound)
		case len(path) == 0 && !h.hasRootRoute():
			h.serveHomepage(w)
		default:
			h.serveFunction(work, w, r, path)
		}
	})
}

// hasRootRoute reports whether a function wants the path / for itself: only with an empty route prefix.
func (h *Host) hasRootRoute() bool {
	for _, e := range h.endpoints {
		if _, ok := e.route.match(nil); ok {
			return true
		}
	}
	return false
}

func (h *Host) serveHomepage(w http.ResponseWriter) {
	if h.env.truth("AzureWebJobsDisableHomepage") {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// A homepage that cannot be written has no reader any more.
	_, _ = fmt.Fprintf(w, "The local Functions host is running.\nFunctions: %s/admin/functions\n", h.URL())
}

// visits counts what callers from outside have under way, so that the host can wait for it.
type visits struct {
	mu     sync.Mutex
	closed bool // guarded by mu
	group  sync.WaitGroup
}

// enter begins a visit; false: the host is closing.
func (v *visits) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closed {
		v.group.Add(1)
	}
	return !v.closed
}

func (v *visits) leave() { v.group.Done() }

// extend runs a function that goes on after the visit it is called in.
func (v *visits) extend(run func()) { v.group.Go(run) }

// close lets nobody in any more and waits until all have left.
func (v *visits) close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.group.Wait()
}
