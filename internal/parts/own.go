package parts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/ids"
	"kennel/internal/api"
	"kennel/internal/app"
	"kennel/internal/attempt"
	"kennel/internal/azure"
	"kennel/internal/control"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/names"
	"kennel/internal/program"
	"kennel/internal/queues"
	"kennel/internal/table"
	"kennel/internal/timers"
	"kennel/work"
)

// Running is an assembled program, for the code of its author.
type Running struct {
	Program  *app.Program
	InOrder  bool // messages are sent one after the other, so that IDs of a test follow their order
	queues   *queues.Queues
	pauses   *control.Pauses // of queues; nil without any
	settings map[string]string
	prefix   string
	jobs     jobs
	life     *life
}

// Start calls the functions of OnStart in a test. The program needs no loops
// then.
func (r *Running) Start(ctx context.Context) error { return r.life.begin(ctx) }

// Stop calls the stops of OnStart in a test.
func (r *Running) Stop(ctx context.Context) error { return r.life.Close(ctx) }

// Letters returns the dead letters of a declared queue in a test.
func (r *Running) Letters(ctx context.Context, queue string) ([]queues.Letter, error) {
	return r.queues.Letters(ctx, queue)
}

// CheckBody returns why a declared queue does not take a body in a test.
func (r *Running) CheckBody(queue string, body []byte) error { return r.queues.Check(queue, body) }

// Prefix returns that of the program's names in storage.
func (r *Running) Prefix() string { return r.prefix }

// Setting returns the value of a declared setting.
func (r *Running) Setting(name string) string { return r.settings[name] }

// LogHandler returns a handler that adds the attempt and the invocation of the
// context to every record.
func LogHandler(next slog.Handler) slog.Handler {
	return customhandler.NewLogHandler(attempt.LogHandler(next))
}

// ownSettings returns the values of the declared settings. Its error names all
// that are missing or wrong, and no value.
func ownSettings(declared []*program.Setting, environ []string) (map[string]string, error) {
	given := valuesOf(environ)
	values := make(map[string]string, len(declared))
	var errs []error
	for _, s := range declared {
		value := given[s.Name]
		if value == "" {
			value = s.Default
		}
		switch {
		case strings.HasPrefix(value, "@Microsoft.KeyVault("):
			errs = append(errs, fmt.Errorf("the setting %s is a reference to a Key Vault that the platform could not read: store the secret, then restart the app", s.Name))
		case value == "" && !s.Optional:
			errs = append(errs, fmt.Errorf("the setting %s is missing%s", s.Name, described(s)))
		case value != "":
			if err := s.Refusal(value); err != nil {
				errs = append(errs, fmt.Errorf("invalid setting: %s: %w", s.Name, withoutValue(err, s, value)))
			}
		}
		values[s.Name] = value
	}
	return values, errors.Join(errs...)
}

func valuesOf(environ []string) map[string]string {
	values := make(map[string]string, len(environ))
	for _, setting := range environ {
		name, value, _ := strings.Cut(setting, "=")
		values[name] = value
	}
	return values
}

// given returns which of the declared settings have a value, besides their
// default.
func given(declared []*program.Setting, environ []string) map[string]bool {
	values, all := valuesOf(environ), make(map[string]bool)
	for _, s := range declared {
		all[s.Name] = values[s.Name] != ""
	}
	return all
}

func described(s *program.Setting) string {
	if s.Description == "" {
		return ""
	}
	return ": " + s.Description
}

// withoutValue keeps a secret out of the error of its check.
func withoutValue(err error, s *program.Setting, value string) error {
	if s.Secret && strings.Contains(err.Error(), value) {
		return errors.New("its check refuses the value, which is a secret")
	}
	return err
}

// life is the part of a program that its author's OnStart begins and ends.
type life struct {
	app.Idle
	hosted bool
	starts []func(context.Context) (func(context.Context) error, error)
	begun  chan struct{} // closed when all have started
	owner  *owner        // nil: the account is not checked

	mu    sync.Mutex
	stops []func(context.Context) error // guarded by mu
}

// Run starts behind a Functions host, whose ctx ends when the stop begins.
func (l *life) Run(ctx context.Context) error {
	if !l.hosted {
		return nil
	}
	return l.begin(ctx)
}

// Work starts in a worker.
func (l *life) Work(ctx context.Context) error { return l.begin(ctx) }

func (l *life) begin(ctx context.Context) error {
	later := false
	if l.owner != nil {
		var err error
		if later, err = l.owner.check(ctx); err != nil {
			return err
		}
	}
	for _, start := range l.starts {
		stop, err := called(ctx, start)
		if err != nil {
			return fmt.Errorf("start the program: %w", err)
		}
		if stop != nil {
			l.mu.Lock()
			l.stops = append(l.stops, stop)
			l.mu.Unlock()
		}
	}
	close(l.begun)
	if later {
		return l.owner.follow(ctx)
	}
	return nil
}

// hungStart is how long a stop waits for a function of OnStart.
const hungStart = 5 * time.Second

// called calls a function of OnStart. It does not wait for one that ignores the
// end of its context: the process is to stop.
func called(ctx context.Context, start func(context.Context) (func(context.Context) error, error)) (stop func(context.Context) error, err error) {
	var begun func(context.Context) error
	ended := make(chan error, 1)
	go attempt.Run(func() (err error) {
		begun, err = start(ctx)
		return err
	}, func(err error) { ended <- err })
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(hungStart):
			return nil, fmt.Errorf("a function of OnStart has not returned %v after the end of its context: %w", hungStart, context.Cause(ctx))
		}
	}
	if p, ok := errors.AsType[*attempt.PanicError](err); ok {
		err = fmt.Errorf("%w\n%s", err, p.Stack)
	}
	return begun, err
}

// Close stops what was started, in reverse order.
func (l *life) Close(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, stop := range slices.Backward(l.stops) {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}

// wait returns when the program has started.
func (l *life) wait(ctx context.Context) error {
	select {
	case <-l.begun:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the program has not started: %w", context.Cause(ctx))
	}
}

var notStarted = &customhandler.Error{Status: http.StatusServiceUnavailable, Code: "starting", Message: "The program has not started. Send the request again."}

// WriteError answers a call of a declared route with an error.
func WriteError(w http.ResponseWriter, err error) {
	item, isItem := errors.AsType[*program.ItemError](err)
	switch {
	case isItem:
		err = &work.ItemErrors{Items: []work.ItemError{{Line: item.Place, Message: causeOf(item.Err)}}}
	case errors.Is(err, errCount):
		err = edge.BadRequest("bad_count", fmt.Sprintf("The count of numbers must be from 1 to %d.", ids.MaxLease))
	case errors.Is(err, queues.ErrDelay):
		err = edge.BadRequest("bad_delay", "A message was not sent: its delay is negative, or not less than 7 days.")
	case errors.Is(err, program.ErrInvalid) && !errors.Is(err, queues.ErrTooLarge):
		err = edge.BadRequest("bad_message", fmt.Sprintf("A message was not sent: %s.", causeOf(err)))
	case errors.Is(err, program.ErrNotRunning):
		err = fmt.Errorf("%w (%w)", err, attempt.ErrStopping) // a route is served between the start and the stop
	}
	api.WriteOwn(w, err)
}

// causeOf returns why a message or an item is not valid.
func causeOf(err error) string {
	text := err.Error()
	if _, cause, found := strings.Cut(text, program.ErrInvalid.Error()+": "); found {
		return cause
	}
	return text
}

// ownRoutes returns the declared routes.
func ownRoutes(d *program.Declared, l *life) (routes app.RoutesOnly) {
	for _, r := range d.Routes {
		handler := r.Handler
		for _, wrap := range slices.Backward(d.UseHTTP) {
			handler = wrap(handler)
		}
		method, path, _ := strings.Cut(r.Pattern, " ")
		routes = append(routes, edge.Route{
			Function: program.FunctionOfRoute(r), Pattern: method + " /api" + strings.TrimSpace(path), Own: true, Enveloped: r.IsEnveloped(),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				request = withoutKey(request, r.Level)
				w = customhandler.WithRequest(w, request)
				if err := l.wait(request.Context()); err != nil {
					w.Header().Set("Retry-After", "1")
					customhandler.WriteError(w, request, fmt.Errorf("%w: %w", err, notStarted))
					return
				}
				handler.ServeHTTP(w, request)
			}),
		})
	}
	return routes
}

// The places of a function key in a call, which the host passes on. It reads the
// name of the parameter in any case.
const (
	keyHeader    = "X-Functions-Key"
	keyParameter = "code"
)

// withoutKey returns a call without the function key of its caller, which the
// host has checked: the program may log the address or the headers. The host
// checks no key for anonymous routes, so there the parameter is the program's own,
// such as the code of a sign-in.
func withoutKey(r *http.Request, level program.Level) *http.Request {
	query := r.URL.RawQuery
	if level != program.LevelAnonymous {
		query = withoutParameter(query, keyParameter)
	}
	if query == r.URL.RawQuery && len(r.Header[keyHeader]) == 0 {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Del(keyHeader)
	r.URL.RawQuery = query
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if r.RequestURI = path; query != "" {
		r.RequestURI += "?" + query
	}
	return r
}

// withoutParameter removes a parameter, and leaves the others as they are.
func withoutParameter(query, name string) string {
	all := strings.Split(query, "&")
	rest := slices.DeleteFunc(slices.Clone(all), func(parameter string) bool {
		key, _, _ := strings.Cut(parameter, "=")
		decoded, err := url.QueryUnescape(key)
		return err == nil && strings.EqualFold(decoded, name)
	})
	if len(rest) == len(all) {
		return query
	}
	return strings.Join(rest, "&")
}

// timerPart is the timers of a program's own as a part of it.
type timerPart struct {
	api.TimerResource
	*timers.Timers
	app.Idle
	declared []*program.Timer
	hosted   bool
}

func (t *timerPart) Routes() []edge.Route { return t.TimerResource.Routes() }

// Functions registers a function for each timer.
func (t *timerPart) Functions(host *customhandler.App) {
	for _, one := range t.declared {
		host.Timer(program.FunctionOfTimer(one.Name), "tick", func(ctx context.Context, _ customhandler.Tick) error { return t.Tick(ctx, one.Name) })
	}
}

func (t *timerPart) Run(ctx context.Context) error {
	if !t.hosted {
		return nil
	}
	return t.Timers.Run(ctx)
}

func (t *timerPart) Work(ctx context.Context) error { return t.Timers.Run(ctx) }

// newOwnTimers opens the timers that the author of the program declared. Without
// any it needs no tables.
func newOwnTimers(e *environment) (*timerPart, error) {
	var rows *table.Table
	if len(e.declared.Timers) > 0 {
		tables, err := e.account.OpenTables(e.optionsOf("timers"))
		if err != nil {
			return nil, err
		}
		store, err := azure.NewTable(tables, names.TimersTable)
		if err != nil {
			return nil, err
		}
		if rows, err = table.New(store); err != nil {
			return nil, err
		}
	}
	hosted := e.listening == nil
	o := &timers.Options{Hosted: hosted, Drain: e.cfg.WorkerDrain, Ready: e.life.wait, Log: e.log}
	if hosted {
		o.Drain = e.cfg.Drain / 2
	}
	t, err := timers.New(e.declared, rows, o)
	if err != nil {
		return nil, err
	}
	return &timerPart{TimerResource: api.TimerResource{Timers: t, People: api.People{SignedIn: e.cfg.SignedIn, Log: e.log}}, Timers: t, declared: e.declared.Timers, hosted: hosted}, nil
}
