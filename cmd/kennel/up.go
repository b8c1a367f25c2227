package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"kennel/internal/config"
	"kennel/internal/dev/azurite"
)

// defaultURL is where the app answers unless told otherwise.
const defaultURL = "http://127.0.0.1:7071"

// upOptions are the flags of "kennel up".
type upOptions struct {
	port    int
	data    string // the folder that keeps Azurite's data; "" keeps them in memory
	host    string // func or builtin
	handler string // a built handler; "" builds one
	key     string // the function key to ask for; "" asks for none
	asJSON  bool
}

func upCommand() *command {
	var o upOptions
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.IntVar(&o.port, "port", 7071, "answer on `PORT` of 127.0.0.1; 0 takes any free one")
	flags.StringVar(&o.data, "data", "", "keep the data in `DIR` (default: in memory, gone at the end)")
	flags.StringVar(&o.host, "host", "", "run the app in `HOST`: func (the Azure Functions Core Tools)\nor builtin (default: func if it is on the PATH)")
	flags.StringVar(&o.handler, "handler", "", "run this built handler: `FILE` (default: built from ./handler)")
	flags.StringVar(&o.key, "key", "", "ask callers for the function key `K`, as Azure does (builtin host only)")
	flags.BoolVar(&o.asJSON, "json", false, "write events to standard output as lines of JSON:\nstarting, ready, stopped")
	return &command{
		name:     "up",
		synopsis: "[--port PORT] [--data DIR] [--host HOST] [--handler FILE] [--key K] [--json]",
		summary:  "run the app on this machine",
		about: `Builds the app, starts a storage for it (Azurite, installed once from npm) and runs
it in a Functions host until Ctrl+C, which stops everything. A second Ctrl+C does
not wait for that. The log of the app goes to standard error.

Settings come from the environment and from local.settings.json. If they name a storage
account (AzureWebJobsStorage, or AzureWebJobsStorage__… for one that is reached by
identity), the app works with that account and no Azurite is started. Likewise with
Service Bus (ServiceBus, ServiceBusSecondary, or their __ forms): unless it is named,
two development buses stand in for it, in memory.`,
		example: "kennel up\nkennel up --port 7080 --data .kennel/data",
		exits:   "0 stopped as asked, 1 it did not start or ended by itself, 2 usage",
		flags:   flags,
		run: func(ctx context.Context, con *console, _ []string) error {
			if o.port < 0 || o.port > 65535 {
				return usagef("--port is %d: a port is a number up to 65535", o.port)
			}
			if o.host != "" && o.host != "func" && o.host != "builtin" {
				return usagef("--host is %q: say func or builtin", o.host)
			}
			if _, err := exec.LookPath("func"); err != nil && o.host == "func" {
				return usagef("--host func: there is no func on the PATH; install the Azure Functions Core Tools, or say builtin")
			}
			if o.host = chooseHost(o.host); o.host == "func" && o.key != "" {
				return usagef("--key works with --host builtin only: func keeps keys of its own")
			}
			err := up(ctx, con, o)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				err = nil // asked to stop before everything had started
			}
			stopped := event{Event: "stopped"}
			if err != nil {
				stopped.Error = err.Error()
			}
			return errors.Join(err, con.report(o.asJSON, stopped))
		},
	}
}

// up runs the app until ctx ends, and stops everything that it started.
func up(ctx context.Context, con *console, o upOptions) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	p, err := openProject(here)
	if err != nil {
		return err
	}
	settings, err := p.settings(con.env)
	if err != nil {
		return err
	}
	checked, err := config.Load(settings)
	if err != nil {
		return err
	}
	listener, err := claimPort(ctx, o.port)
	if err != nil {
		return err
	}
	defer listener.Close() // again, where the host has done so

	starting := event{Event: "starting", Host: o.host, Storage: "given", Bus: "given"}
	if isDevelopment(checked.Storage) {
		starting.Storage = "azurite"
	}
	if !mentions(settings, busSetting) && !mentions(settings, standInBus) {
		starting.Bus = "devbus"
	}
	if err := con.report(o.asJSON, starting); err != nil {
		return err
	}
	machine := target{os: runtime.GOOS, arch: runtime.GOARCH}
	dist, err := p.stage(ctx, con, machine, o.handler)
	if err != nil {
		return err
	}

	app := hosted{
		dist:       dist,
		executable: filepath.Join(dist, machine.executable()),
		settings:   settings,
		storage:    checked.Storage,
		listener:   listener,
		key:        o.key,
		data:       o.data,
	}
	host := func(ctx context.Context, ready func()) error { return runBuiltin(ctx, con, app, ready) }
	if starting.Host == "func" {
		host = func(ctx context.Context, ready func()) error { return runFunc(ctx, con, app, ready) }
	}
	ready := event{Event: "ready", URL: app.url(), Key: o.key, Functions: p.functions}
	greet := func() error { return con.report(o.asJSON, ready) }
	farewell := func() { con.say("stopping; a second Ctrl+C does not wait for that") }
	if starting.Bus == "devbus" {
		buses, err := startBuses()
		if err != nil {
			return err
		}
		defer buses.stop() // after the app; what was in them is gone, and nobody asks how
		ready.ServiceBus, ready.ServiceBusSecondary = buses.primary.ConnectionString(), buses.secondary.ConnectionString()
		app.settings[busSetting], app.settings[standInBus] = ready.ServiceBus, ready.ServiceBusSecondary
	}
	if !isDevelopment(app.storage) {
		return serve(ctx, host, greet, farewell, nil)
	}

	storage, err := startAzurite(ctx, con, o.data)
	if err != nil {
		return err
	}
	app.storage = config.Storage{ConnectionString: storage.ConnectionString()}
	app.settings[storageSetting] = app.storage.ConnectionString
	ready.Data, ready.Connection = o.data, app.storage.ConnectionString
	ready.BlobURL, ready.QueueURL, ready.TableURL = storage.BlobURL(), storage.QueueURL(), storage.TableURL()
	// Storage stops after the app, which may be writing to the last.
	return errors.Join(serve(ctx, host, greet, farewell, storage.Done()), storage.Stop())
}

// hosted is what a host gets to run.
type hosted struct {
	dist       string            // the folder with host.json
	executable string            // the handler in it
	settings   map[string]string // the whole environment of the app
	storage    config.Storage    // the account that they name
	listener   net.Listener      // where to answer; a host that opens its own port closes it
	key        string            // the function key to ask for; "" asks for none
	data       string            // the folder for what is to be kept; "" keeps nothing
}

func (h hosted) url() string { return "http://" + h.listener.Addr().String() }

// serve runs the host until ctx ends, or until something ends by itself, which
// is an error. It greets once the host says that it is ready, and says farewell
// when ctx ends. The host has stopped when serve returns.
func serve(ctx context.Context, host func(_ context.Context, ready func()) error,
	greet func() error, farewell func(), storageEnded <-chan struct{}) error {
	asked := ctx.Done()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- host(ctx, sync.OnceFunc(func() { close(ready) })) }()

	// A channel that has said its one word is set to nil: it is silent then.
	var err error
	for err == nil {
		select {
		case <-ready:
			ready = nil
			err = greet()
		case <-asked:
			asked = nil
			farewell()
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

// chooseHost prefers the real host, where there is one.
func chooseHost(asked string) string {
	if asked != "" {
		return asked
	}
	if _, err := exec.LookPath("func"); err == nil {
		return "func"
	}
	return "builtin"
}

// startAzurite starts a storage for this run, installing it first if this
// machine has none yet.
func startAzurite(ctx context.Context, con *console, data string) (*azurite.Server, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find a folder to install Azurite into: %w", err)
	}
	if data != "" {
		if data, err = filepath.Abs(data); err != nil { // Azurite runs in a folder of its own
			return nil, err
		}
		if err := os.MkdirAll(data, 0o755); err != nil {
			return nil, err
		}
	}
	progress := &steps{con: con}
	installed, err := azurite.Install(ctx, filepath.Join(cache, "kennel"), progress)
	progress.end()
	if err != nil {
		return nil, err
	}
	// Its log says that it listens, and nothing else; its last words are part of
	// the error when it ends.
	return azurite.Start(ctx, installed, &azurite.Options{Dir: data})
}
