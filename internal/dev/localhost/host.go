package localhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"kennel/internal/customhandler"
)

// stopGrace is how long invocations may continue when the host stops.
const stopGrace = 10 * time.Second

// flushTime is how long the last responses may take to reach their callers.
const flushTime = time.Second

// Options are the choices of a Host; nil and zero fields mean the defaults.
type Options struct {
	Env        map[string]string // the environment of the host and the handler, with all settings of the app
	Executable string            // start this instead of defaultExecutablePath

	Queues QueueStore // for queue triggers; nil: functions with one have a problem

	// StatusDir is the folder for the status of timers, one file per function.
	// Use one folder per app. Default: the status is kept in memory, so a run
	// that is missed while the host is down is not caught up.
	StatusDir string

	// Attach is the port of a handler that another program starts, such as a
	// debugger: the host waits for it without a limit. Default: it starts the
	// handler itself.
	Attach int

	Keys         *Keys         // default: every function is open to everyone, as under `func start`
	GracefulStop time.Duration // between SIGTERM and SIGKILL at a stop; default: SIGKILL at once
	StrictHang   bool          // after an empty response, wait for functionTimeout as the real host does

	Console io.Writer    // the output of the handler and of the host; default: discarded
	Log     *slog.Logger // errors of storage and connections; default: as JSON on Console

	Served func(Request) // called after each HTTP request; default: nothing
}

func (o *Options) withDefaults() (Options, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	if opt.Env == nil {
		opt.Env = make(map[string]string)
	}
	opt.Console = cmp.Or(opt.Console, io.Discard)
	if opt.Served == nil {
		opt.Served = func(Request) {}
	}
	if opt.GracefulStop < 0 {
		return opt, fmt.Errorf("localhost.Options.GracefulStop is %v: use 0, which means none, or more", opt.GracefulStop)
	}
	return opt, nil
}

// A Host runs one function app. Create it with New and run it once.
type Host struct {
	listener   net.Listener
	file       hostFile
	env        settings
	functions  []*function
	endpoints  []endpoint // the most exact routes first
	handler    *supervisor
	listeners  []*queueListener
	timers     []*timerListener
	queues     QueueStore
	keys       *Keys
	bodyLimit  int64
	strictHang bool
	out        *console
	log        *slog.Logger
	served     func(Request)
	visits     visits
	ready      chan struct{}
	stopping   chan struct{} // closed when Run takes no more work
}

// New reads the function app in the folder root, which contains host.json, to
// serve it at the listener. It starts nothing. A function with a problem is
// reported on the console and not loaded, as in the real host. New fails if the
// app cannot run or if a function needs a feature that only the real host has.
func New(root string, listener net.Listener, options *Options) (*Host, error) {
	opt, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open function app: %w", err)
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open function app: %w", err)
	}
	h := &Host{
		env:        opt.Env,
		listener:   listener,
		queues:     opt.Queues,
		keys:       opt.Keys,
		strictHang: opt.StrictHang,
		out:        &console{out: opt.Console},
		log:        opt.Log,
		served:     opt.Served,
		ready:      make(chan struct{}),
		stopping:   make(chan struct{}),
	}
	if h.log == nil {
		h.log = slog.New(slog.NewJSONHandler(h.out, nil))
	}
	if h.file, err = readHostFile(root, h.env); err != nil {
		return nil, fmt.Errorf("open function app %s: %w", root, err)
	}
	if !h.file.described {
		return nil, fmt.Errorf("open function app %s: host.json has no customHandler.description, and this host runs custom handlers only", root)
	}
	if h.bodyLimit, err = bodyLimit(h.env); err != nil {
		return nil, err
	}
	if opt.Executable != "" {
		h.file.handler.executable = opt.Executable
	}
	if h.functions, err = discover(root, h.file.only, h.env); err != nil {
		return nil, fmt.Errorf("open function app %s: %w", root, err)
	}
	for _, f := range h.functions {
		f.retry = cmp.Or(f.retry, h.file.retry)
	}
	if err := unsupported(h.functions); err != nil {
		return nil, fmt.Errorf("open function app %s: %w", root, err)
	}
	h.connect(timerStore(opt.StatusDir))

	if slices.ContainsFunc(h.functions, func(f *function) bool { return f.problem == nil }) {
		childEnv := maps.Clone(map[string]string(h.env))
		childEnv["WEBSITE_HOSTNAME"] = listener.Addr().String()
		childEnv["AzureWebJobsScriptRoot"] = root
		childEnv["AZURE_FUNCTIONS_ENVIRONMENT"] = "Development"
		h.handler = newSupervisor(newLauncher(h.file.handler, root, childEnv, h.out), h.file.startUp, opt.GracefulStop)
		if opt.Attach != 0 {
			h.handler.attached, h.handler.startUp = opt.Attach, attachTime
		}
	}
	h.report(root)
	return h, nil
}

// attachTime is how long calls wait for a process that another program starts:
// a person does.
const attachTime = 24 * time.Hour

// unsupported joins the unsupported features of the functions. It skips
// functions with a problem, which cannot run in any host.
func unsupported(functions []*function) error {
	var all []error
	for _, f := range functions {
		if f.problem == nil && f.unsupported != nil {
			all = append(all, fmt.Errorf("function '%s': %w", f.name, f.unsupported))
		}
	}
	return errors.Join(all...)
}

func timerStore(dir string) TimerStore {
	if dir == "" {
		return &memoryTimers{}
	}
	return fileTimers{dir: dir}
}

// connect creates the endpoint or listener of each function. If that fails, the
// function gets a problem.
func (h *Host) connect(timers TimerStore) {
	for _, f := range h.functions {
		if f.problem == nil {
			f.problem = h.connectOne(f, timers)
		}
	}
	slices.SortStableFunc(h.endpoints, func(a, b endpoint) int { return a.route.compare(b.route) })
}

func (h *Host) connectOne(f *function, timers TimerStore) error {
	trigger := f.trigger()
	if h.queues == nil && trigger.is("queueTrigger") {
		return errors.New("no queue storage; set AzureWebJobsStorage")
	}
	switch {
	case trigger.is("httpTrigger"):
		e, err := newEndpoint(f, h.file.prefix)
		if err != nil {
			return err
		}
		for _, other := range h.endpoints {
			if e.conflicts(other) {
				return fmt.Errorf("the route %q conflicts with that of function %s", e.route.template, other.function.name)
			}
		}
		h.endpoints = append(h.endpoints, e)
	case f.disabled:
	case trigger.is("queueTrigger"):
		h.listeners = append(h.listeners, &queueListener{
			queue: trigger.queue, store: h.queues, settings: h.file.queues, out: h.out, log: h.log,
			invoke: func(ctx context.Context, m customhandler.QueueMessage) error {
				if trigger.dataType != "binary" && !utf8.ValidString(m.Text) {
					h.out.say("Message %s of queue '%s' is not UTF-8; the handler never sees it.", m.ID, trigger.queue)
					return errNotText
				}
				from := customhandler.Trigger{Function: f.name, Binding: trigger.name, DataType: trigger.dataType}
				return h.invoke(ctx, f, fmt.Sprintf("New queue message detected on '%s'.", trigger.queue), from.Queue(m), nil)
			},
		})
	case trigger.is("timerTrigger"):
		plan, err := parseSchedule(trigger.schedule)
		if err != nil {
			return err
		}
		listener := &timerListener{
			name: f.name, schedule: plan, statuses: timers, runOnStartup: trigger.runOnStartup, log: h.log,
			invoke: func(ctx context.Context, tick customhandler.Tick) error {
				from := customhandler.Trigger{Function: f.name, Binding: trigger.name, DataType: trigger.dataType}
				return h.invoke(ctx, f, "Timer fired at "+wallClock().Format(time.RFC3339Nano), from.Timer(tick), nil)
			},
		}
		if !trigger.useMonitor || plan.underAMinute(wallClock()) {
			listener.statuses = nil
		}
		h.timers = append(h.timers, listener)
	}
	return nil
}

// errNotText fails the delivery of a message to a text binding. Like any
// failure it is repeated until the message is moved to the poison queue.
var errNotText = errors.New("the message is not UTF-8")

func bodyLimit(env settings) (int64, error) {
	const name = "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT"
	text, ok := env.lookup(name)
	if !ok {
		return defaultBodyLimit, nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit <= 0 {
		return 0, fmt.Errorf("setting %s is %q: it must be a number of bytes", name, text)
	}
	return limit, nil
}
