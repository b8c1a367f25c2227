package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"

	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/observe"
)

// A Builder wires a program, and sends no request. received takes how each
// receive of messages ended, in a process without a Functions host; behind one
// it is nil.
type Builder func(cfg config.Config, received func(error), log *slog.Logger) (*Program, error)

// Program is an assembled program: its parts, and what they serve.
type Program struct {
	members *observe.Members // with the name of this process, as in the status
	parts   []Part
	Routes  []edge.Route                   // all routes of the API, without those of the console
	Host    *customhandler.App             // serves calls
	Queues  []string                       // that it works on, for the log
	Begun   <-chan struct{}                // closed when the program has started; nil: it has nothing to start
	Trace   func(kind, name string) Traces // opens the traces of a process of this kind and name; nil: none
	log     *slog.Logger
}

// New returns a program of parts, of which the process knows what they
// know about themselves.
func New(cfg config.Config, m *observe.Members, mt *observe.Meter, parts []Part, log *slog.Logger) (*Program, error) {
	host, err := customhandler.New(&customhandler.Options{
		Log:     log,
		Timeout: cfg.InvocationTimeout,
		MaxBody: edge.MaxBody,
		Drain:   cfg.Drain,
	})
	if err != nil {
		return nil, err
	}
	a := &Program{members: m, parts: parts, Host: host, log: log}
	var sources []observe.Source
	for _, p := range parts {
		if p.Knows != nil {
			sources = append(sources, p.Knows)
		}
		if p.Serves != nil {
			a.Routes = append(a.Routes, p.Serves.Routes()...)
			p.Serves.Functions(host)
		}
	}
	m.Watch(sources...)
	edge.ServeAll(host, a.Routes, mt.HTTP, edge.NewPeople(cfg, log))
	return a, nil
}

// Traces are the spans of a process.
type Traces interface {
	Context(ctx context.Context) context.Context // calls and messages below it are recorded
	Close()                                      // sends the last spans
}

// traced opens the traces of a process, and returns the context of its work.
func (a *Program) traced(ctx context.Context, kind string) (_ context.Context, end func()) {
	if a.Trace == nil {
		return ctx, func() {}
	}
	traces := a.Trace(kind, a.members.Name())
	return traces.Context(ctx), traces.Close
}

// Run serves a Functions host until ctx ends or a part fails.
//
// The parts learn at the same time as the server that ctx ends, so waiters at
// gates get an answer before the server closes their connections.
func (a *Program) Run(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	running := a.start(ctx, Runner.Run, stop)
	err := a.Host.Serve(ctx, listener)
	stop()
	return errors.Join(append(running.wait(), err)...)
}

// Work works without a Functions host until ctx ends or a part fails. beside
// runs until the work has ended, as do the other loops of the parts.
func (a *Program) Work(ctx context.Context, stopping func(), beside ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	supported, endSupport := context.WithCancel(context.WithoutCancel(ctx))
	defer endSupport()
	supporting := a.start(supported, Runner.Run, stop, beside...)
	working := a.start(ctx, Runner.Work, stop)
	<-ctx.Done()
	stopping()
	a.log.Info("stopping; messages in progress may finish")
	errs := working.wait()
	endSupport()
	return errors.Join(append(errs, supporting.wait()...)...)
}

// running is what was started together.
type running struct {
	group sync.WaitGroup

	mu   sync.Mutex
	errs []error // guarded by mu
}

// start starts one function of each part, and others, until ctx ends. If one
// fails, it calls stop.
func (a *Program) start(ctx context.Context, do func(Runner, context.Context) error, stop func(), others ...func(context.Context) error) *running {
	r := &running{}
	begin := func(f func(context.Context) error) {
		r.group.Go(func() {
			if err := f(ctx); err != nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.errs = append(r.errs, err)
				stop()
			}
		})
	}
	for _, p := range a.parts {
		if p.Runs != nil {
			begin(func(ctx context.Context) error { return do(p.Runs, ctx) })
		}
	}
	for _, f := range others {
		begin(f)
	}
	return r
}

func (r *running) wait() []error {
	r.group.Wait()
	return r.errs
}

// stages are in the order of the stop.
var stages = []stage{GivesBack, releases, Leaves, Accounts, Disconnects}

// Close releases what this process holds, stage by stage, and within a stage in
// the order of the parts. A failure does not keep the rest from being closed.
func (a *Program) Close(ctx context.Context) error {
	var errs []error
	for _, s := range stages {
		for _, p := range a.parts {
			if p.Runs != nil && p.Closes == s {
				errs = append(errs, p.Runs.Close(ctx))
			}
		}
	}
	return errors.Join(errs...)
}
