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
	"sync"
	"time"

	"kennel/internal/customhandler"
)

// DefaultAddr is where a host listens when nothing else is said, the same as `func start`.
const DefaultAddr = "127.0.0.1:7071"

// stopGrace is how long the invocations in flight may go on when the host stops.
const stopGrace = 10 * time.Second

// flushTime is how long the last answers may take to reach their callers.
const flushTime = time.Second

// Options are the choices of a Host; nil and zero fields mean the defaults.
type Options struct {
	Addr     string       // default DefaultAddr; port 0 is any free one
	Listener net.Listener // listen here instead of Addr; Run closes it

	Env        map[string]string // the environment of the host and the handler; wins over local.settings.json
	Executable string            // start this instead of defaultExecutablePath

	Queues QueueStore // for queue triggers and outputs; nil: functions with one are reported as errors
	Timers TimerStore // default: files in StatusDir

	// StatusDir holds the status of timers, one file per function; use one folder per app.
	// Default: timers are forgotten when the host stops, and missed runs are not caught up.
	StatusDir string

	Keys         *Keys         // default: every function is open to everyone, as under `func start`
	GracefulStop time.Duration // how long the handler has between SIGTERM and SIGKILL at a stop; default: SIGKILL at once
	StrictHang   bool          // after an empty answer, really wait for functionTimeout as the real host does

	Console io.Writer    // the handler's output and what happens, for people; default: nowhere
	Log     *slog.Logger // trouble with storage and connections; default: as text on Console
}

// A Host runs one function app. Make it with New and run it once.
type Host struct {
	addr       string
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
	visits     visits
	ready      chan struct{}

	mu  sync.Mutex
	url string // guarded by mu
}

// New reads the function app in the folder root, which holds host.json. It starts nothing and opens nothing. A
// function with a problem is reported on the console and left out; an app that cannot run at all is an error.
func New(root string, options *Options) (*Host, error) {
	opt := Options{}
	if options != nil {
		opt = *options
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open function app: %w", err)
	}
	h := &Host{
		addr:       cmp.Or(opt.Addr, DefaultAddr),
		listener:   opt.Listener,
		queues:     opt.Queues,
		keys:       opt.Keys,
		strictHang: opt.StrictHang,
		out:        &console{out: cmp.Or(opt.Console, io.Discard)},
		log:        opt.Log,
		ready:      make(chan struct{}),
	}
	if h.log == nil {
		h.log = slog.New(slog.NewTextHandler(h.out, nil))
	}

	env, warnings, err := loadSettings(root, opt.Env)
	if err != nil {
		return nil, fmt.Errorf("open function app %s: %w", root, err)
	}
	h.env = env
	if h.file, err = readHostFile(root, env); err != nil {
		return nil, fmt.Errorf("open function app %s: %w", root, err)
	}
	if !h.file.described {
		return nil, fmt.Errorf("open function app %s: host.json has no customHandler.description, and this host runs custom handlers only", root)
	}
	if h.bodyLimit, err = bodyLimit(env); err != nil {
		return nil, err
	}
	if opt.Executable != "" {
		h.file.handler.executable = opt.Executable
	}
	if h.functions, err = discover(root, h.file.only, env); err != nil {
		return nil, fmt.Errorf("open function app %s: %w", root, err)
	}
	h.connect(cmp.Or(opt.Timers, defaultTimers(opt.StatusDir)))

	if slices.ContainsFunc(h.functions, func(f *function) bool { return f.problem == nil }) {
		childEnv := maps.Clone(map[string]string(env))
		childEnv["AzureWebJobsScriptRoot"] = root
		childEnv["AZURE_FUNCTIONS_ENVIRONMENT"] = "Development"
		launch, err := newLauncher(h.file.handler, root, childEnv, h.out)
		if err != nil {
			return nil, fmt.Errorf("open function app %s: %w", root, err)
		}
		h.handler = newSupervisor(launch, h.file.startUp, opt.GracefulStop)
	}
	h.report(root, warnings)
	return h, nil
}

func defaultTimers(dir string) TimerStore {
	if dir == "" {
		return &memoryTimers{}
	}
	return fileTimers{dir: dir}
}

// connect gives each function what triggers it. A function for which this cannot be done gets a problem.
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
	if h.queues == nil && (trigger.is("queueTrigger") || len(f.outputs("queue")) > 0) {
		return errors.New("there is no queue storage: set AzureWebJobsStorage")
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
			wake: make(chan struct{}, 1),
			invoke: func(ctx context.Context, m customhandler.QueueMessage) error {
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

// wake wakes the functions that listen to a queue.
func (h *Host) wake(queue string) {
	for _, l := range h.listeners {
		if l.queue == queue {
			l.notify()
		}
	}
}

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
