// Package run runs a project on this machine. It stages the project, starts
// storage (devstore or Azurite) and two buses (devbus) unless the settings name
// others, and runs the app in a Functions host: the local one or the Azure
// Functions Core Tools.
//
// Everything that it starts ends with it. On Linux this is true even if this
// program is killed with SIGKILL; on other systems the handler of the local
// host may then keep running.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"kennel/internal/config"
	"kennel/internal/dev/azurite"
	"kennel/internal/dev/localhost"
	"kennel/internal/dev/project"
)

// Options are the choices of an [App]; nil and zero fields mean the defaults.
type Options struct {
	Port    int    // listen on this port of 127.0.0.1, or see SettingsPort; default: any free one
	Data    string // the folder for stored data; default: in memory
	Storage string // Devstore or Azurite; default: Devstore
	Handler string // a built handler; default: build one
	Key     string // the function key that callers need (local host only); default: none

	// Entities are queues to create on the primary development bus, from
	// [EntityNames]. They detect duplicates, as those of a deployment do.
	Entities []string

	Watch bool // run the app again after each change of its sources (local host only); default: false

	// Attach makes the app that of a process which another program starts, such
	// as a debugger: its environment is reported and written to .kennel/env, and
	// no handler is built or started (local host only). Default: false.
	Attach bool

	// Tether makes the Azure Functions Core Tools run the app. It is a command
	// that calls [Tether] with the arguments that follow it. Default: the local
	// host runs the app.
	Tether []string

	Log io.Writer // the log of the app and its host; default: discarded

	// Report is called for each event, by one goroutine at a time. An error from
	// starting or ready ends Run. Default: nothing.
	Report func(Event) error

	Served   func(localhost.Request) // called after each HTTP request (local host only); default: nothing
	Stopping func()                  // called when ctx of Run ends; default: nothing
}

// SettingsPort as [Options.Port] is Host.LocalHttpPort of local.settings.json,
// or DefaultPort.
const (
	SettingsPort = -1
	DefaultPort  = 7071
)

// consoleFunction serves the page of the app.
const consoleFunction = "Console"

// An Event reports the progress of a run.
type Event struct {
	Event string `json:"event"` // starting, step, warning, attach, ready, restarted, stopped

	// starting
	Host    string `json:"host,omitempty"`    // func, builtin
	Storage string `json:"storage,omitempty"` // devstore, azurite, running (one of these, of another program), given
	Bus     string `json:"bus,omitempty"`     // devbus, given

	// step, of the start; several run at a time
	Step   string `json:"step,omitempty"` // handler, storage, bus, functions
	Done   bool   `json:"done,omitempty"`
	Failed bool   `json:"failed,omitempty"` // done without success, and the app runs on

	Text    string  `json:"text,omitempty"`    // step: its purpose or, once done, its result; warning: its text
	Seconds float64 `json:"seconds,omitempty"` // step, once done: how long it took; ready: since the start; restarted: since the change

	// attach
	Environment map[string]string `json:"environment,omitempty"` // for the process, besides that of kennel
	File        string            `json:"file,omitempty"`        // which holds it

	// ready
	URL       string   `json:"url,omitempty"`
	Console   string   `json:"console,omitempty"`   // the page for a browser; absent if the project has none
	Key       string   `json:"key,omitempty"`       // to call functions with; as given
	Functions []string `json:"functions,omitempty"` // restarted has them, too

	// starting and ready, with storage of this run
	Data string `json:"data,omitempty"` // the data folder; absent: in memory

	// ready, with storage on this machine; that of this run has a key of its own
	Connection string `json:"connection,omitempty"`
	BlobURL    string `json:"blobUrl,omitempty"`
	QueueURL   string `json:"queueUrl,omitempty"`
	TableURL   string `json:"tableUrl,omitempty"`

	// ready, with development buses; their keys are not secret
	ServiceBus          string `json:"serviceBus,omitempty"`
	ServiceBusSecondary string `json:"serviceBusSecondary,omitempty"`

	// ready, with devstore of this app: where it fails on request
	StorageFaults string `json:"storageFaults,omitempty"`

	// ready, with development buses: where they fail on request
	ServiceBusFaults          string   `json:"serviceBusFaults,omitempty"`
	ServiceBusSecondaryFaults string   `json:"serviceBusSecondaryFaults,omitempty"`
	Entities                  []string `json:"entities,omitempty"` // queues created on the primary one
}

// An App is a project with validated settings.
type App struct {
	project  *project.Project
	opt      Options
	given    map[string]string // the environment of this program
	settings map[string]string // the whole environment of the app
	storage  config.Storage    // the account in the settings

	development bool            // the app uses storage on this machine
	shared      *azurite.Server // … that another program runs; nil: start one

	devbus  bool   // start development buses for the app
	backlog int    // queues of the secondary one
	url     string // of the app, once Run has its port
	cors    bool   // the settings want answers for other origins

	partitions int    // queues of the function of partitions
	watch      *watch // of the sources; nil without Watch

	reporting sync.Mutex // held while opt.Report runs
}

// New reads and validates the settings of a project: env and, for names that
// are not in env, local.settings.json.
func New(p *project.Project, env map[string]string, options *Options) (*App, error) {
	a := &App{project: p, given: env}
	if options != nil {
		a.opt = *options
	}
	if a.opt.Log == nil {
		a.opt.Log = io.Discard
	}
	if a.opt.Report == nil {
		a.opt.Report = func(Event) error { return nil }
	}
	if a.opt.Stopping == nil {
		a.opt.Stopping = func() {}
	}
	a.opt.Storage = cmp.Or(a.opt.Storage, Devstore)
	local, err := p.LocalSettings()
	if err != nil {
		return nil, err
	}
	if a.opt.Port == SettingsPort {
		a.opt.Port = cmp.Or(local.Port, DefaultPort)
	}
	a.cors = local.CORS
	a.settings = settings(local.Values, env)
	checked, err := config.Load(a.settings)
	if err != nil {
		return nil, err
	}
	if err := p.Partition(checked.Partitions); err != nil {
		return nil, err
	}
	a.partitions, p.Prefix = checked.Partitions, checked.Storage.Prefix
	a.storage, a.development = checked.Storage, isDevelopment(checked.Storage)
	a.backlog = checked.BacklogQueues
	a.devbus = !mentions(a.settings, busSetting) && !mentions(a.settings, secondaryBusSetting)
	if len(a.opt.Entities) > 0 && !a.devbus {
		return nil, fmt.Errorf("the settings name a Service Bus (%s, %s), where kennel creates no queues; create them there, or remove both settings to use development buses",
			busSetting, secondaryBusSetting)
	}
	return a, nil
}

// Run runs the app until ctx ends, and then stops everything that it started.
// It must be called only once.
func (a *App) Run(ctx context.Context) error {
	began := time.Now()
	defer a.announceStop(ctx)()
	listener, err := claimPort(ctx, a.opt.Port)
	if err != nil {
		return err
	}
	defer listener.Close() // fails if the host has closed it
	a.url = "http://" + listener.Addr().String()
	tools, err := a.findTools(ctx)
	if err != nil {
		return err
	}
	if err := a.report(a.starting()); err != nil {
		return err
	}
	if a.cors && a.opt.Tether == nil { // func reads it itself
		a.warn("local.settings.json: Host.CORS is ignored; web pages of other origins cannot call the app")
	}
	if a.opt.Watch {
		a.watch = newWatch(a.project)
	}
	entrance := openEntrance(listener)
	defer entrance.close()
	parts, err := a.prepare(ctx, tools)
	if err == nil {
		entrance.close()
		err = a.host(ctx, began, listener, parts)
	} else if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // stopped before everything had started
	}
	// Stop storage after the app, which may write until it ends.
	return errors.Join(err, parts.stop())
}

// announceStop calls Stopping when ctx ends. The function that it returns ends
// that, and waits until Stopping has returned.
func (a *App) announceStop(ctx context.Context) (end func()) {
	running, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		<-running.Done()
		if ctx.Err() != nil {
			a.opt.Stopping()
		}
	})
	return func() { cancel(); waiting.Wait() }
}

func (a *App) starting() Event {
	e := Event{Event: "starting", Host: "builtin", Storage: "given", Bus: "given"}
	if a.opt.Tether != nil {
		e.Host = "func"
	}
	switch {
	case a.shared != nil:
		e.Storage = "running"
	case a.development:
		e.Storage, e.Data = a.opt.Storage, a.opt.Data
	}
	if a.devbus {
		e.Bus = "devbus"
	}
	return e
}

// host runs the app in a host until ctx ends. It reports when the app is ready,
// after it has published the address.
func (a *App) host(ctx context.Context, began time.Time, listener net.Listener, p parts) error {
	ready := Event{Event: "ready", URL: a.url, Key: a.opt.Key, Functions: a.project.Functions}
	if slices.Contains(a.project.Functions, consoleFunction) {
		ready.Console = a.url + "/api/console"
	}
	storage := a.storage
	var storageEnded <-chan struct{}
	if a.shared != nil {
		watched, end := context.WithCancel(ctx)
		defer end()
		go a.shared.Watch(watched)
	}
	if p.storage != nil {
		storageEnded = p.storage.Done()
		storage = config.Storage{ConnectionString: p.storage.ConnectionString()}
		a.settings[storageSetting] = storage.ConnectionString
		ready.Data, ready.Connection = a.opt.Data, storage.ConnectionString
		ready.BlobURL, ready.QueueURL, ready.TableURL = p.storage.BlobURL(), p.storage.QueueURL(), p.storage.TableURL()
		if own, ok := p.storage.(*ownStore); ok {
			ready.StorageFaults = own.FaultsURL()
		}
	}
	if p.buses != nil {
		ready.ServiceBus, ready.ServiceBusSecondary = p.buses.primary.ConnectionString(), p.buses.secondary.ConnectionString()
		ready.ServiceBusFaults, ready.ServiceBusSecondaryFaults = p.buses.primary.FaultsURL(), p.buses.secondary.FaultsURL()
		ready.Entities = a.opt.Entities
		a.settings[busSetting], a.settings[secondaryBusSetting] = ready.ServiceBus, ready.ServiceBusSecondary
	}

	h := hosted{dist: p.dist, executable: filepath.Join(p.dist, Machine().Executable()), listener: listener, storage: storage}
	run := func(ctx context.Context, ready func(error)) error { return a.runBuiltin(ctx, h, ready) }
	switch {
	case a.opt.Watch:
		run = func(ctx context.Context, ready func(error)) error { return a.runWatched(ctx, h, ready) }
	case a.opt.Tether != nil:
		run = func(ctx context.Context, ready func(error)) error { return a.runFunc(ctx, h, ready) }
	}
	step := a.begin("functions", "starting the handler")
	address := addressFile{filepath.Join(a.project.Root, addressFolder), a.url}
	defer address.remove()
	greet := func(problem error) error {
		if problem != nil {
			// The host has logged the problem. It stays up, as in Azure.
			step.fail("the handler does not start")
			return nil
		}
		step.done(fmt.Sprintf("%d loaded", len(ready.Functions)))
		if err := address.write(); err != nil {
			return err
		}
		ready.Seconds = time.Since(began).Seconds()
		return a.report(ready)
	}
	return serve(ctx, run, greet, storageEnded, func() error { return a.storageGone(p.storage) })
}

// storageGone reports at once, and returns for the end of the run, that storage
// has ended. The app must end too: whatever takes the ports next is not the
// storage that it was to use.
func (a *App) storageGone(s store) error {
	a.warn("storage has ended; stopping the app")
	switch {
	case a.shared != nil:
		return fmt.Errorf("the %s at %s, which kennel did not start, has ended (%s), so kennel stopped the app; run this command again", a.shared.Kind(), portsOf(s), s.Ending())
	case a.opt.Data == "":
		return fmt.Errorf("azurite, the storage of this app, ended without being stopped by kennel (%s), so kennel stopped the app. "+
			"Its data was in memory and is lost; --data DIR keeps it. Run this command again", s.Ending())
	}
	return fmt.Errorf("azurite, the storage of this app, ended without being stopped by kennel (%s), so kennel stopped the app. Run this command again", s.Ending())
}

// hosted describes the app that a host runs, without the settings.
type hosted struct {
	dist       string         // the folder with host.json
	executable string         // the handler in it
	listener   net.Listener   // where to listen; a host that opens its own port closes it
	storage    config.Storage // the account with the queues
}

// serve runs the host until ctx ends, or until the host or storage ends
// unexpectedly, which is an error, that of storageGone for storage. It calls
// greet once the host is ready, with the host's problem. When serve returns, the
// host has stopped.
func serve(ctx context.Context, host func(_ context.Context, ready func(error)) error,
	greet func(problem error) error, storageEnded <-chan struct{}, storageGone func() error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ready, ended := make(chan error, 1), make(chan error, 1) // each gets one value
	go func() { ended <- host(ctx, func(problem error) { ready <- problem }) }()

	var err error
	for err == nil {
		select {
		case problem := <-ready:
			err = greet(problem)
		case <-storageEnded:
			storageEnded = nil // it would be received again
			err = storageGone()
		case err = <-ended:
			if err == nil && ctx.Err() == nil {
				err = errors.New("the Functions host ended unexpectedly")
			}
			return err
		}
	}
	stop()
	return errors.Join(err, <-ended)
}
