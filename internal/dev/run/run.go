// Package run runs a project on this machine. It stages the project, starts a
// storage emulator (Azurite) and two buses (devbus) unless the settings name
// others, and runs the app in a Functions host: the local one or the Azure
// Functions Core Tools.
//
// Everything that it starts ends with it. On Linux this is true even if this
// program is killed with SIGKILL; on other systems the handler of the local
// host may then keep running.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"kennel/internal/config"
	"kennel/internal/dev/azurite"
	"kennel/internal/dev/project"
)

// Options are the choices of an [App]; nil and zero fields mean the defaults.
type Options struct {
	Port    int    // listen on this port of 127.0.0.1; default: any free one
	Data    string // the folder for stored data; default: in memory
	Handler string // a built handler; default: build one
	Key     string // the function key that callers need (local host only); default: none

	// Tether makes the Azure Functions Core Tools run the app. It is a command
	// that calls [Tether] with the arguments that follow it. Default: the local
	// host runs the app.
	Tether []string

	Log    io.Writer         // the log of the app; default: discarded
	Report func(Event) error // called for each event; an error ends Run; default: nothing

	// Step is called when a slow step starts; the returned function is called
	// when the step ends. Default: nothing.
	Step func(text string) (done func())

	// Stopping is called when ctx of Run ends. Default: nothing.
	Stopping func()
}

// An Event reports the progress of a run.
type Event struct {
	Event string `json:"event"` // starting, ready, stopped

	// starting
	Host    string `json:"host,omitempty"`    // func, builtin
	Storage string `json:"storage,omitempty"` // azurite, given
	Bus     string `json:"bus,omitempty"`     // devbus, given

	// ready
	URL       string   `json:"url,omitempty"`
	Key       string   `json:"key,omitempty"` // to call functions with; as given
	Functions []string `json:"functions,omitempty"`

	// ready, with Azurite; its key is public and the same everywhere
	Data       string `json:"data,omitempty"` // the data folder; absent: in memory
	Connection string `json:"connection,omitempty"`
	BlobURL    string `json:"blobUrl,omitempty"`
	QueueURL   string `json:"queueUrl,omitempty"`
	TableURL   string `json:"tableUrl,omitempty"`

	// ready, with development buses; their keys are not secret
	ServiceBus          string `json:"serviceBus,omitempty"`
	ServiceBusSecondary string `json:"serviceBusSecondary,omitempty"`

	// stopped
	Error string `json:"error,omitempty"` // why the run ended; absent: stopped on request
}

// An App is a project with validated settings.
type App struct {
	project  *project.Project
	opt      Options
	settings map[string]string // the whole environment of the app
	storage  config.Storage    // the account in the settings
	azurite  bool              // start Azurite for the app
	devbus   bool              // start development buses for the app
}

// New reads and validates the settings of a project: env and, for names that
// are not in env, local.settings.json.
func New(p *project.Project, env map[string]string, options *Options) (*App, error) {
	a := &App{project: p}
	if options != nil {
		a.opt = *options
	}
	if a.opt.Log == nil {
		a.opt.Log = io.Discard
	}
	if a.opt.Report == nil {
		a.opt.Report = func(Event) error { return nil }
	}
	if a.opt.Step == nil {
		a.opt.Step = func(string) func() { return func() {} }
	}
	if a.opt.Stopping == nil {
		a.opt.Stopping = func() {}
	}
	local, err := p.LocalSettings()
	if err != nil {
		return nil, err
	}
	a.settings = settings(local, env)
	checked, err := config.Load(a.settings)
	if err != nil {
		return nil, err
	}
	a.storage, a.azurite = checked.Storage, isDevelopment(checked.Storage)
	a.devbus = !mentions(a.settings, busSetting) && !mentions(a.settings, secondaryBusSetting)
	return a, nil
}

// Run runs the app until ctx ends, and then stops everything that it started.
// It must be called only once.
func (a *App) Run(ctx context.Context) error {
	listener, err := claimPort(ctx, a.opt.Port)
	if err != nil {
		return err
	}
	defer listener.Close() // fails if the host has closed it
	if err := a.opt.Report(a.starting()); err != nil {
		return err
	}
	machine := project.Target{OS: runtime.GOOS, Arch: runtime.GOARCH}
	dist, err := a.project.Stage(ctx, machine, &project.StageOptions{Prebuilt: a.opt.Handler, Env: a.settings, Step: a.opt.Step})
	if err != nil {
		return err
	}

	ready := Event{Event: "ready", URL: "http://" + listener.Addr().String(), Key: a.opt.Key, Functions: a.project.Functions}
	if a.devbus {
		buses, err := startBuses()
		if err != nil {
			return err
		}
		defer buses.stop() // after the app; their contents are lost
		ready.ServiceBus, ready.ServiceBusSecondary = buses.primary.ConnectionString(), buses.secondary.ConnectionString()
		a.settings[busSetting], a.settings[secondaryBusSetting] = ready.ServiceBus, ready.ServiceBusSecondary
	}
	var storage *azurite.Server
	var storageEnded <-chan struct{}
	if a.azurite {
		if storage, err = a.startAzurite(ctx); err != nil {
			return err
		}
		storageEnded = storage.Done()
		a.storage = config.Storage{ConnectionString: storage.ConnectionString()}
		a.settings[storageSetting] = a.storage.ConnectionString
		ready.Data, ready.Connection = a.opt.Data, a.storage.ConnectionString
		ready.BlobURL, ready.QueueURL, ready.TableURL = storage.BlobURL(), storage.QueueURL(), storage.TableURL()
	}

	h := hosted{dist: dist, executable: filepath.Join(dist, machine.Executable()), listener: listener}
	host := func(ctx context.Context, ready func()) error { return a.runBuiltin(ctx, h, ready) }
	if a.opt.Tether != nil {
		host = func(ctx context.Context, ready func()) error { return a.runFunc(ctx, h, ready) }
	}
	err = serve(ctx, host, func() error { return a.opt.Report(ready) }, a.opt.Stopping, storageEnded)
	if storage != nil {
		// Stop storage after the app, which may write until it ends.
		err = errors.Join(err, storage.Stop())
	}
	return err
}

func (a *App) starting() Event {
	e := Event{Event: "starting", Host: "builtin", Storage: "given", Bus: "given"}
	if a.opt.Tether != nil {
		e.Host = "func"
	}
	if a.azurite {
		e.Storage = "azurite"
	}
	if a.devbus {
		e.Bus = "devbus"
	}
	return e
}

// hosted is what a host runs, besides the settings.
type hosted struct {
	dist       string       // the folder with host.json
	executable string       // the handler in it
	listener   net.Listener // where to listen; a host that opens its own port closes it
}

// serve runs the host until ctx ends, or until the host or storage ends
// unexpectedly, which is an error. It calls greet once the host is ready, and
// stopping when ctx ends. When serve returns, the host has stopped.
func serve(ctx context.Context, host func(_ context.Context, ready func()) error,
	greet func() error, stopping func(), storageEnded <-chan struct{}) error {
	asked := ctx.Done()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- host(ctx, sync.OnceFunc(func() { close(ready) })) }()

	// A channel is set to nil after its first receive, so that it blocks.
	var err error
	for err == nil {
		select {
		case <-ready:
			ready = nil
			err = greet()
		case <-asked:
			asked = nil
			stopping()
		case <-storageEnded:
			storageEnded = nil
			err = errors.New("azurite ended unexpectedly, so the app has no storage")
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

// startAzurite starts Azurite for this run. It installs Azurite first if this
// machine does not have it.
func (a *App) startAzurite(ctx context.Context) (*azurite.Server, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find a folder to install Azurite into: %w", err)
	}
	data := a.opt.Data
	if data != "" {
		if data, err = filepath.Abs(data); err != nil { // Azurite runs in its own folder
			return nil, err
		}
		if err := os.MkdirAll(data, 0o755); err != nil {
			return nil, err
		}
	}
	progress := &steps{begin: a.opt.Step}
	installed, err := azurite.Install(ctx, filepath.Join(cache, "kennel"), progress)
	progress.end()
	if err != nil {
		return nil, err
	}
	// No log: Azurite logs only its addresses, and an error when it ends
	// contains its last lines.
	return azurite.Start(ctx, installed, &azurite.Options{Dir: data})
}
