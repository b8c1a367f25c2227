package customhandler

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Options are the settings of an App. Nil and zero fields mean the defaults.
type Options struct {
	// Log receives one record for each failed invocation, and at level debug
	// one for each successful invocation. Query strings, headers, keys and
	// bodies are never in it. Default: slog.Default().
	Log *slog.Logger

	// Timeout limits a queue or timer invocation: after it, the host has an
	// answer. The invocation's context ends a twentieth earlier, so that a
	// function can still clean up. It must be shorter than functionTimeout in
	// host.json, after which the host kills the whole process. Default: 4m30s,
	// for the default functionTimeout of five minutes.
	Timeout time.Duration

	// HTTPTimeout limits an HTTP invocation in the same way. Azure's front end
	// gives up after 230 s. Default: Timeout, but at most 220 s.
	HTTPTimeout time.Duration

	// MaxBody is the largest body of an HTTP call, in bytes, except for the
	// calls of Upload. Default: 100 MiB, the host's own limit.
	MaxBody int64

	// Drain is how long Serve waits for running invocations after its context
	// ends. Default: 5s.
	Drain time.Duration
}

// frontEndLimit is how long Azure's front end waits for a response.
const frontEndLimit = 230 * time.Second

func (o *Options) withDefaults() (Options, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	opt.Log = slog.New(NewLogHandler(cmp.Or(opt.Log, slog.Default()).Handler()))
	opt.Timeout = cmp.Or(opt.Timeout, 270*time.Second)
	opt.HTTPTimeout = cmp.Or(opt.HTTPTimeout, min(opt.Timeout, 220*time.Second))
	opt.MaxBody = cmp.Or(opt.MaxBody, 100<<20)
	opt.Drain = cmp.Or(opt.Drain, 5*time.Second)
	switch {
	case opt.Timeout < 0:
		return opt, fmt.Errorf("customhandler.Options.Timeout is %v: use more than 0", opt.Timeout)
	case opt.HTTPTimeout < 0 || opt.HTTPTimeout >= frontEndLimit:
		return opt, fmt.Errorf("customhandler.Options.HTTPTimeout is %v: use less than %v, the limit of Azure's front end", opt.HTTPTimeout, frontEndLimit)
	case opt.MaxBody < 0:
		return opt, fmt.Errorf("customhandler.Options.MaxBody is %d: use more than 0", opt.MaxBody)
	case opt.Drain < 0:
		return opt, fmt.Errorf("customhandler.Options.Drain is %v: use more than 0", opt.Drain)
	}
	return opt, nil
}

// App answers the Functions host for all functions of a process. Register all
// functions before the first call of ServeHTTP. Like http.ServeMux, the
// registering methods panic on a name, binding or pattern that cannot work: it
// is a constant of the program, so only a change of the program can correct it,
// and the first start shows it.
type App struct {
	opt       Options
	functions map[string]*function // by name, in the exact case that the host sends
	routes    *router              // the patterns of all HTTP functions, for forwarded calls
	running   runningCalls         // forwarded calls
}

// function is the function that POST /<name> runs.
type function struct {
	name    string
	binding string
	limit   time.Duration
	invoke  func(context.Context, Envelope) (Answer, error)
	routes  *router // of an HTTP function, for calls in envelopes; nil for the others
}

// New returns an App without functions.
func New(options *Options) (*App, error) {
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &App{opt: opt, functions: make(map[string]*function), routes: newRouter()}
	a.running.overdue = func(c *runningCall) { c.out.giveUp(c.ctx, opt.Log, opt.HTTPTimeout) }
	return a, nil
}

// Queue registers a function with a queueTrigger binding. After an error the
// host delivers the message again, up to maxDequeueCount times, and then moves
// it to the poison queue; after nil it deletes the message. Messages come at
// least once.
func (a *App) Queue(name, binding string, f func(context.Context, QueueMessage) error) {
	a.trigger(name, binding, func(ctx context.Context, e Envelope) error {
		m, err := decodeQueue(e, binding)
		if err != nil {
			return err
		}
		return f(ctx, m)
	})
}

// Timer registers a function with a timerTrigger binding. After an error the
// host does nothing until the next tick.
func (a *App) Timer(name, binding string, f func(context.Context, Tick) error) {
	a.trigger(name, binding, func(ctx context.Context, e Envelope) error {
		return f(ctx, decodeTimer(e, binding))
	})
}

func (a *App) trigger(name, binding string, f func(context.Context, Envelope) error) {
	a.register(&function{name: name, binding: binding, limit: a.opt.Timeout,
		invoke: func(ctx context.Context, e Envelope) (Answer, error) { return Answer{}, f(ctx, e) }})
}

func (a *App) register(f *function) {
	if f.name == "" || strings.Contains(f.name, "/") || f.binding == "" {
		panic(fmt.Sprintf("customhandler: function %q with binding %q: use the folder of function.json and the trigger's name in it", f.name, f.binding))
	}
	if a.functions[f.name] != nil {
		panic(fmt.Sprintf("customhandler: function %q is registered twice", f.name))
	}
	a.functions[f.name] = f
}

// ServeHTTP distinguishes the three kinds of requests by their paths: empty, a
// function's name, or a route, which has at least two segments because of its
// prefix. It gives every answer the invocation's id and the headers of all
// answers.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	SetStanding(w.Header())
	w.Header()[headerRequestID] = []string{invocationID(r.Header)}
	if err := checkHeader(r.Header); err != nil {
		writeError(w, err)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	switch {
	case name == "":
		a.serveReadiness(w, r)
	case strings.Contains(name, "/"):
		a.serveCall(w, r)
	default:
		a.serveEnvelope(w, r, name)
	}
}

// serveReadiness answers the host's check, which comes every 25 ms at the start
// and later to measure the latency.
func (a *App) serveReadiness(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeError(w, errMethod(r.Method))
		return
	}
	writeAnswer(w, Answer{})
}

// serveCall serves a forwarded call.
func (a *App) serveCall(w http.ResponseWriter, r *http.Request) {
	until := time.Now().Add(softLimit(a.opt.HTTPTimeout))
	if r.ContentLength != 0 {
		// A client may send half a body and then stop. A function waits for the
		// rest. This fails only on a writer without deadlines, as in tests.
		_ = http.NewResponseController(w).SetReadDeadline(until)
	}
	if r.ContentLength <= MaxUnread {
		a.routes.ServeHTTP(w, r)
		return
	}
	u := &unreadWriter{w, r.Body, until}
	a.routes.ServeHTTP(u, r)
	u.discard() // for an answer that net/http makes
}

// envelopeType is the content type of the host's envelopes.
const envelopeType = "application/json; charset=utf-8"

// isEnvelope reports whether a request for a function's own address comes from
// the host itself. The host rebuilds the path of a call that it forwards, so a
// caller with the key of one function can make it forward a call to any
// address. Two marks distinguish such a call: the host passes on the caller's
// key, in the query or in x-functions-key; and a forwarded call is never
// chunked, because the host fails on a chunked call before it forwards it. An
// envelope has no query and no key, and is always chunked.
func isEnvelope(r *http.Request) bool {
	keyless := r.URL.RawQuery == "" && !r.URL.ForceQuery && len(r.Header["X-Functions-Key"]) == 0
	chunked := r.ContentLength < 0
	return r.Method == http.MethodPost && keyless && chunked && r.Header.Get("Content-Type") == envelopeType
}

func (a *App) serveEnvelope(w http.ResponseWriter, r *http.Request, name string) {
	if !isEnvelope(r) {
		writeError(w, &Error{http.StatusNotFound, "not_found",
			"This address does not exist for callers. Only the Functions host calls a function by its name, with an envelope."})
		return
	}
	f := a.functions[name]
	if f == nil {
		writeError(w, &Error{http.StatusNotFound, "unknown_function",
			fmt.Sprintf("This handler has no function %.128q. The folder of function.json and the registered name must be equal, including case.", name)})
		return
	}
	ctx := withInvocation(r.Context(), &invocation{requestID(w), name, a.opt.Log})
	answer, err := a.invoke(ctx, f, w, r)
	if err == nil {
		a.opt.Log.DebugContext(ctx, "invocation succeeded")
		writeAnswer(w, answer)
		return
	}
	e := explain(err)
	if f.routes == nil || e.Status != http.StatusRequestEntityTooLarge {
		// Everyone may call a function whose level is anonymous, so a long body
		// must be neither a failed invocation nor an error in the log.
		logFailure(ctx, a.opt.Log, "invocation failed", err)
	}
	if f.routes != nil && e.Status != http.StatusBadRequest {
		// The caller of an HTTP function can read this answer. After a failed
		// invocation the host would send it an empty 500.
		writeAnswer(w, errorAnswer(ctx, e))
		return
	}
	writeError(w, failure(err))
}

func (a *App) invoke(ctx context.Context, f *function, w http.ResponseWriter, r *http.Request) (Answer, error) {
	e, err := a.readEnvelope(w, r, f)
	if err != nil {
		return Answer{}, err
	}
	return runLimited(ctx, f.limit, func(ctx context.Context) (Answer, error) { return f.invoke(ctx, e) })
}

// readEnvelope reads the request within the invocation's time. An envelope can
// hold the body of an HTTP call twice, the second time as metadata, and escapes
// make it longer: hence the factor.
func (a *App) readEnvelope(w http.ResponseWriter, r *http.Request, f *function) (Envelope, error) {
	maxEnvelope := 3*a.opt.MaxBody + 1<<20
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(f.limit)) // fails on a writer without deadlines, as in tests
	body, err := io.ReadAll(io.LimitReader(r.Body, maxEnvelope+1))
	if err == nil && int64(len(body)) > maxEnvelope {
		limit := maxEnvelope
		if f.routes != nil {
			limit = a.opt.MaxBody // of which the caller knows
		}
		body, err = nil, errTooLarge(limit)
		_, _ = io.Copy(io.Discard, r.Body) // see MaxUnread
	}
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		return Envelope{}, fmt.Errorf("read the envelope: %w", err)
	}
	return decodeEnvelope(body, f.routes == nil)
}
