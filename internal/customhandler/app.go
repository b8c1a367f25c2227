package customhandler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Options are the choices of an App; nil and zero fields mean the defaults.
type Options struct {
	// Log gets one line for each invocation that fails, and one for each that succeeds at level debug. Query strings,
	// headers, keys and bodies are never in it. Default: slog.Default().
	Log *slog.Logger

	// Timeout is when the host has its answer to a queue, Service Bus or timer invocation at the latest. The
	// invocation's context ends a twentieth earlier, so that a function which honours it can still clean up. It must
	// be shorter than functionTimeout in host.json, at which the host kills the whole process. Default: 4m30s, for
	// the default functionTimeout of five minutes.
	Timeout time.Duration

	// HTTPTimeout is the same for an HTTP invocation, where Azure's front end gives up after 230 s.
	// Default: Timeout, but at most 220 s.
	HTTPTimeout time.Duration

	// MaxBody is the largest body of an HTTP call, in bytes. Default: 100 MiB, the host's own limit.
	MaxBody int64

	// Drain is how long Serve lets running invocations finish when it is told to stop. Default: 5s.
	Drain time.Duration
}

const (
	frontEndLimit      = 230 * time.Second
	defaultTimeout     = 270 * time.Second
	defaultHTTPTimeout = 220 * time.Second
	defaultMaxBody     = 100 << 20
	defaultDrain       = 5 * time.Second
)

// App answers the Functions host for all functions of one process. Register the functions first, then serve: the
// registering methods must not run beside ServeHTTP. They panic on a mistake in the program, as http.ServeMux does.
type App struct {
	log         *slog.Logger
	timeout     time.Duration
	httpTimeout time.Duration
	maxBody     int64
	drain       time.Duration
	functions   map[string]*function // by name, exact case: that is how the host writes it
	routes      *router              // all HTTP functions' patterns, for forwarded calls
}

// function is what POST /<name> runs.
type function struct {
	name    string
	binding string
	limit   time.Duration
	invoke  func(context.Context, Envelope) (Answer, error)

	// Of an HTTP function alone: its routes, and what finds them in an envelope,
	// made when the first one comes. Nil for the others.
	routes []route
	router func() *router
}

// New returns an App without functions. It panics on options that cannot work.
func New(opt *Options) *App {
	o := Options{}
	if opt != nil {
		o = *opt
	}
	if o.Timeout < 0 || o.HTTPTimeout < 0 || o.MaxBody < 0 || o.Drain < 0 {
		panic(fmt.Sprintf("customhandler: Timeout %v, HTTPTimeout %v, MaxBody %d and Drain %v must not be negative",
			o.Timeout, o.HTTPTimeout, o.MaxBody, o.Drain))
	}
	if o.HTTPTimeout >= frontEndLimit {
		panic(fmt.Sprintf("customhandler: HTTPTimeout %v must be shorter than %v, when Azure's front end gives up", o.HTTPTimeout, frontEndLimit))
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.HTTPTimeout == 0 {
		o.HTTPTimeout = min(o.Timeout, defaultHTTPTimeout)
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Drain == 0 {
		o.Drain = defaultDrain
	}
	return &App{
		log:         slog.New(NewLogHandler(o.Log.Handler())),
		timeout:     o.Timeout,
		httpTimeout: o.HTTPTimeout,
		maxBody:     o.MaxBody,
		drain:       o.Drain,
		functions:   make(map[string]*function),
		routes:      newRouter(),
	}
}

// Queue registers a function with a queueTrigger binding. An error makes the host offer the message again, and after
// maxDequeueCount attempts move it to the poison queue; nil deletes it. Messages come at least once.
func (a *App) Queue(name, binding string, f func(context.Context, QueueMessage) error) {
	a.trigger(name, binding, func(ctx context.Context, e Envelope) error {
		m, err := decodeQueue(e, binding)
		if err != nil {
			return err
		}
		return f(ctx, m)
	})
}

// ServiceBus registers a function with a serviceBusTrigger binding, one message at a time. An error abandons the
// message, which comes back at once, and after the entity's MaxDeliveryCount goes to its dead-letter queue.
func (a *App) ServiceBus(name, binding string, f func(context.Context, ServiceBusMessage) error) {
	a.trigger(name, binding, func(ctx context.Context, e Envelope) error {
		m, err := decodeServiceBus(e, binding)
		if err != nil {
			return err
		}
		return f(ctx, m)
	})
}

// ServiceBusBatch registers a function with a serviceBusTrigger binding of cardinality "many". The host completes all
// messages of the batch or, after an error, abandons all. Write "dataType": "string" into function.json: only then are
// texts exact and do bodies that are not JSON get through.
func (a *App) ServiceBusBatch(name, binding string, f func(context.Context, []ServiceBusMessage) error) {
	a.trigger(name, binding, func(ctx context.Context, e Envelope) error {
		ms, err := decodeServiceBusBatch(e, binding)
		if err != nil {
			return err
		}
		return f(ctx, ms)
	})
}

// Timer registers a function with a timerTrigger binding. After an error the host does nothing until the next tick.
func (a *App) Timer(name, binding string, f func(context.Context, Tick) error) {
	a.trigger(name, binding, func(ctx context.Context, e Envelope) error {
		return f(ctx, decodeTimer(e, binding))
	})
}

func (a *App) trigger(name, binding string, f func(context.Context, Envelope) error) {
	a.register(&function{name: name, binding: binding, limit: a.timeout,
		invoke: func(ctx context.Context, e Envelope) (Answer, error) { return Answer{}, f(ctx, e) }})
}

func (a *App) register(f *function) {
	if f.name == "" || strings.Contains(f.name, "/") || f.binding == "" {
		panic(fmt.Sprintf("customhandler: function %q with binding %q: both need the names of function.json", f.name, f.binding))
	}
	if a.functions[f.name] != nil {
		panic(fmt.Sprintf("customhandler: function %q is registered twice", f.name))
	}
	a.functions[f.name] = f
}

// ServeHTTP tells the three kinds of request apart by their paths: nothing, a function's name, or a route, which
// always has at least two segments because of its prefix.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	switch {
	case name == "":
		a.serveReadiness(w, r)
	case strings.Contains(name, "/"):
		a.routes.ServeHTTP(w, r)
	default:
		a.serveEnvelope(w, r, name)
	}
}

// serveReadiness answers the host's question each 25 ms at the start, and its latency measurements later on.
func (a *App) serveReadiness(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeError(w, errMethod(r.Method))
		return
	}
	writeAnswer(w, Answer{})
}

func (a *App) serveEnvelope(w http.ResponseWriter, r *http.Request, name string) {
	f := a.functions[name]
	if f == nil {
		writeError(w, &Error{http.StatusNotFound, "unknown_function",
			fmt.Sprintf("there is no function %.128q here: the folder of function.json and the registered name must be equal, in case too", name)})
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		writeError(w, errMethod(r.Method))
		return
	}
	inv := &invocation{id: invocationID(r.Header), function: name, log: a.log}
	ctx := context.WithValue(r.Context(), invocationKey{}, inv)
	answer, err := a.invoke(ctx, inv, f, w, r)
	if err == nil {
		a.log.DebugContext(ctx, "invocation succeeded")
		writeAnswer(w, answer)
		return
	}
	logFailure(ctx, a.log, "invocation failed", err)
	if f.router != nil && errors.Is(err, context.DeadlineExceeded) {
		// The caller of an HTTP function should read what happened; a failed invocation would tell it nothing.
		writeAnswer(w, errorAnswer(explain(err)))
		return
	}
	writeError(w, failure(err))
}

func (a *App) invoke(ctx context.Context, inv *invocation, f *function, w http.ResponseWriter, r *http.Request) (Answer, error) {
	e, err := a.readEnvelope(w, r, f.limit)
	if err != nil {
		return Answer{}, err
	}
	answer, err := inv.run(ctx, f.limit, func(ctx context.Context) (Answer, error) { return f.invoke(ctx, e) })
	outputs := inv.close(answer.Outputs)
	if err != nil {
		return Answer{}, err
	}
	answer.Outputs = outputs
	return answer, nil
}

// readEnvelope reads the request within the invocation's time. A body of an HTTP call is in the envelope up to twice,
// the second time as metadata, and grows by its escapes: hence the factor.
func (a *App) readEnvelope(w http.ResponseWriter, r *http.Request, limit time.Duration) (Envelope, error) {
	most := 3*a.maxBody + 1<<20
	if r.ContentLength > most { // by its announced length, before it is read
		return Envelope{}, fmt.Errorf("read the envelope: %w", errTooLarge(most))
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(limit)) // not every writer can; the host itself never dawdles
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		return Envelope{}, fmt.Errorf("read the envelope: %w", err)
	}
	return decodeEnvelope(body)
}
