package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"kennel/internal/config"
	"kennel/internal/customhandler"
)

// workerConsole serves the console in a worker that only this machine reaches,
// so that it is there without a Functions host. The app behind it is wired when
// the page is first opened: a worker whose console is never used needs no gates
// and no sequences. From then on this process is among the instances twice: as
// a worker, and as what serves the console.
type workerConsole struct {
	wire   func() (*app, error) // once
	wired  chan *app            // holds the app until run takes it
	log    *slog.Logger
	closes time.Duration // how long the app may take to release what it holds
}

func newWorkerConsole(cfg config.Config, log *slog.Logger) *workerConsole {
	c := &workerConsole{wired: make(chan *app, 1), log: log, closes: cfg.Drain}
	c.wire = sync.OnceValues(func() (*app, error) {
		a, err := newApp(cfg, log)
		if err != nil {
			log.Error("cannot serve the console", "error", err)
			return nil, err
		}
		log.Info("the console is in use", "instance", a.name)
		c.wired <- a
		return a, nil
	})
	return c
}

// ServeHTTP serves the calls below consoleBase.
func (c *workerConsole) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, err := c.wire()
	if err != nil {
		customhandler.WriteError(w, r, &customhandler.Error{Status: http.StatusServiceUnavailable, Code: "stopped",
			Message: "The console cannot be served; the worker's log has the cause."})
		return
	}
	// Some calls take longer than the answers of probes may. This fails only on a
	// writer without deadlines, as in tests.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxConsoleCall))
	a.host.ServeHTTP(w, r)
}

// maxConsoleCall is longer than any call of the API takes.
const maxConsoleCall = 4 * time.Minute

// run runs the app from its first use until ctx ends.
func (c *workerConsole) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case a := <-c.wired:
		err := a.runWith(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.closes)
		defer cancel()
		return errors.Join(err, a.close(closing))
	}
}

// isConsole reports whether a path is that of the console.
func isConsole(path string) bool {
	return path == consoleBase || strings.HasPrefix(path, consoleBase+"/")
}

// onLoopback reports whether only this machine reaches a listener.
func onLoopback(l net.Listener) bool {
	address, ok := l.Addr().(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}
