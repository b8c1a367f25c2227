// Package run runs a project on this machine: it stages it, starts a storage
// (Azurite) and two buses (devbus) for it unless its settings name others, and
// runs it in a Functions host, the local one or the Azure Functions Core Tools.
//
// Everything that it starts ends with it. On Linux that holds even if this
// program is killed without notice; elsewhere the handler of the local host may
// stay behind then.
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
	Port    int    // answer on this port of 127.0.0.1; default: any free one
	Data    string // the folder that keeps what is stored; default: memory
	Handler string // a built handler; default: build one
	Key     string // the function key to ask for, by the local host only; default: none

	// Tether makes the Azure Functions Core Tools run the app. It is the
	// command in front of theirs, which must call [Tether]. Default: the local
	// host runs it.
	Tether []string

	Log    io.Writer         // the log of the app; default: discarded
	Report func(Event) error // is called for each event; an error ends Run; default: nothing

	// Step is called when something slow begins, and what it returns when that
	// ends. Default: nothing.
	Step func(text string) (done func())

	// Stopping is called when Run was asked to stop. Default: nothing.
	Stopping func()
}

// An Event tells the caller how far a run is.
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

	// ready, with an Azurite; its key is the same everywhere, and no secret
	Data       string `json:"data,omitempty"` // the folder that keeps its data; absent: in memory
	Connection string `json:"connection,omitempty"`
	BlobURL    string `json:"blobUrl,omitempty"`
	QueueURL   string `json:"queueUrl,omitempty"`
	TableURL   string `json:"tableUrl,omitempty"`

	// ready, with development buses; their keys open nothing
	ServiceBus          string `json:"serviceBus,omitempty"`
	ServiceBusSecondary string `json:"serviceBusSecondary,omitempty"`

	// stopped
	Error string `json:"error,omitempty"` // why, unless it was asked for
}

// An App is a project with settings that were checked.
type App struct {
	project  *project.Project
	opt      Options
	settings map[string]string // the whole environment of the app
	storage  config.Storage    // the account that they name
	azurite  bool              // the app gets an Azurite
	devbus   bool              // the app gets development buses
}

// New reads and checks the settings of a project: env and, for names that it
// lacks, local.settings.json.
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
	a.devbus = !mentions(a.settings, busSetting) && !mentions(a.settings, standInBus)
	return a, nil
}

// Run runs the app until ctx ends, and stops everything that it started. It
// must be called only once.
func (a *App) Run(ctx context.Context) error {
	listener, err := claimPort(ctx, a.opt.Port)
	if err != nil {
		return err
	}
	defer listener.Close() // again, if the host has closed it
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
		defer buses.stop() // after the app; what was in them is lost
		ready.ServiceBus, ready.ServiceBusSecondary = buses.primary.ConnectionString(), buses.secondary.ConnectionString()
		a.settings[busSetting], a.settings[standInBus] = ready.ServiceBus, ready.ServiceBusSecondary
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
		// Storage stops after the app, which may be writing to the last.
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

// hosted is what a host gets to run, beside the settings.
type hosted struct {
	dist       string       // the folder with host.json
	executable string       // the handler in it
	listener   net.Listener // where to answer; a host that opens its own port closes it
}

// serve runs the host until ctx ends, or until something ends by itself, which
// is an error. It calls greet once the host is ready, and stopping when ctx
// ends. The host has stopped when serve returns.
func serve(ctx context.Context, host func(_ context.Context, ready func()) error,
	greet func() error, stopping func(), storageEnded <-chan struct{}) error {
	asked := ctx.Done()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- host(ctx, sync.OnceFunc(func() { close(ready) })) }()

	// A channel that was received from once is set to nil, which blocks.
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
			err = errors.New("azurite ended by itself, and with it the app's storage")
		case err = <-ended:
			if err == nil && ctx.Err() == nil {
				err = errors.New("the Functions host ended by itself")
			}
			return err
		}
	}
	stop()
	return errors.Join(err, <-ended)
}

// startAzurite starts a storage for this run, installing it first if this
// machine has none yet.
func (a *App) startAzurite(ctx context.Context) (*azurite.Server, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find a folder to install Azurite into: %w", err)
	}
	data := a.opt.Data
	if data != "" {
		if data, err = filepath.Abs(data); err != nil { // Azurite runs in a folder of its own
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
	// Its log says that it listens, and nothing else; its last words are part of
	// the error when it ends.
	return azurite.Start(ctx, installed, &azurite.Options{Dir: data})
}
