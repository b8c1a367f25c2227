package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kennel/internal/dev/localhost"
	"kennel/internal/dev/project"
	devrun "kennel/internal/dev/run"
)

// defaultURL is the default address of the app.
const defaultURL = "http://127.0.0.1:7071"

// upOptions are the flags of "kennel up".
type upOptions struct {
	port    int
	data    string // the folder for stored data; "" keeps the data in memory
	storage string // devstore or azurite
	host    string // func or builtin
	handler string // a built handler; "" builds the program
	program string // its package; "" for the usual one
	key     string // the function key that callers need; "" for none

	entities []string // queues of the primary development bus

	watch  bool
	attach bool

	verbose bool
	asJSON  bool
	open    bool // show the console in a browser
}

func (con *console) upCommand() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up [package]",
		Short: "run the app on this machine",
		Long: `Builds the app unless its source is unchanged, and runs it with storage of its own in a
Functions host until Ctrl+C, which stops everything. A second Ctrl+C ends kennel
immediately. Requests, warnings, errors and what the program's own code logs go to
standard error; with --verbose or --json the whole log does. While the app runs,
.kennel/url in the project has its address.

The program is the package in handler/ if the project has one, else that of its root, or
the package that is given.

With --watch the app is built and started again when a Go file, function or embedded file
changes. The old process stops in order: what it has not finished goes back to its queue.
While a change does not build, the app runs on as it was.

With --attach no handler is built or started: start one yourself, as in a debugger, with
the environment that is shown and that .kennel/env in the project has, one NAME=VALUE a
line. Calls wait until it answers. When it ends, the next one is waited for.

Storage is devstore, a part of this program, or with --storage azurite Microsoft's
emulator Azurite, which needs Node.js and is installed once from npm. Neither reads the
data of the other. Ports are 10000 to 10002 where these are free.

Settings come from the environment and from local.settings.json. If they name a storage
account (AzureWebJobsStorage, or AzureWebJobsStorage__… to sign in by identity), the app
uses that account and no storage is started. With --host func and without --data, storage
that already runs at ports 10000 to 10002 is used, an Azurite or "kennel storage", but not
that of another "kennel up". If it ends, so does the app. If the settings name no Service
Bus (ServiceBus, ServiceBusSecondary, or their __ forms), the app uses two in-memory
development buses: a primary one, with the queues of --entity, and a secondary one for
the backlog.`,
		Example:     "kennel up\nkennel up --watch\nkennel up --port 7080 --data .kennel/data\nkennel up --entity orders --entity eu/invoices",
		Annotations: exits("stopped on request, by Ctrl+C or SIGTERM", "it did not start or ended unexpectedly"),
		Args:        maybePackage,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.program = args[0]
			}
			if o.port < 0 || o.port > 65535 {
				return usagef("--port is %d; use a number from 0 to 65535", o.port)
			}
			if cmd.Flags().Changed("key") && o.key == "" {
				return usagef("--key is empty; give a key, or leave it out to let everyone on this machine call")
			}
			var err error
			if o.entities, err = devrun.EntityNames(o.entities); err != nil {
				return usagef("--entity: %v", err)
			}
			if !cmd.Flags().Changed("port") {
				o.port = devrun.SettingsPort
			}
			return con.up(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.port, "port", devrun.DefaultPort, "listen on `PORT` of 127.0.0.1, 0 for any free one; without it\nHost.LocalHttpPort of local.settings.json counts")
	flags.StringVar(&o.data, "data", "", "keep the data in `DIR` (default: in memory, lost when kennel stops)")
	flags.StringVar(&o.storage, "storage", devrun.Devstore, "the `KIND` of storage: devstore or azurite")
	flags.StringVar(&o.host, "host", "", "run the app in `HOST`: func (the Azure Functions Core Tools)\nor builtin (default: func if it is on the PATH)")
	flags.StringVar(&o.handler, "handler", "", "run the built handler in `FILE` (default: built from the program)")
	flags.StringVar(&o.key, "key", "", "require the function key `K` from callers, as Azure does\n(builtin host only)")
	flags.StringArrayVar(&o.entities, "entity", nil, "create the queue `NAME` on the primary development bus (repeatable);\n~ stands for /")
	flags.BoolVar(&o.watch, "watch", false, "build and start the app again after each change (builtin host only)")
	flags.BoolVar(&o.attach, "attach", false, "wait for a handler that you start yourself (builtin host only)")
	flags.BoolVar(&o.verbose, "verbose", false, "show the whole log of the app and its host, as they write it")
	flags.BoolVar(&o.asJSON, "json", false, "write events to standard output as lines of JSON:\nstarting, step, warning, ready, stopped")
	flags.BoolVar(&o.open, "open", false, "show the console in the browser once the app is ready")
	completeWith(cmd, "storage", devrun.Devstore, devrun.Azurite)
	completeWith(cmd, "host", "func", "builtin")
	completeFile(cmd, "data")
	completeFile(cmd, "handler")
	return cmd
}

// up checks the options and runs the app.
func (con *console) up(ctx context.Context, o upOptions) error {
	if o.host != "" && o.host != "func" && o.host != "builtin" {
		return usagef("--host is %q; use func or builtin", o.host)
	}
	if o.storage != devrun.Devstore && o.storage != devrun.Azurite {
		return usagef("--storage is %q; use devstore or azurite", o.storage)
	}
	_, err := exec.LookPath("func")
	if err != nil && o.host == "func" {
		return usagef("--host func: func is not on the PATH; install it with `npm install -g azure-functions-core-tools@4 --unsafe-perm true`, or use --host builtin")
	}
	if err := o.checkSource(); err != nil {
		return err
	}
	if o.host == "" && err == nil && !o.watch && !o.attach {
		o.host = "func" // the real host, if it is installed
	}
	if o.host == "func" && o.key != "" {
		return usagef("--key requires --host builtin; func manages its own keys")
	}
	show := con.newScreen(o.asJSON, o.verbose)
	end := show.count()
	err = o.run(ctx, con, show)
	end()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // stopped before anything had started
	}
	if err != nil {
		return explainCrash(err)
	}
	return show.report(devrun.Event{Event: "stopped"})
}

// checkSource checks the flags that say where the process of the app comes from.
func (o upOptions) checkSource() error {
	for _, f := range []struct {
		name string
		set  bool
	}{{"--watch", o.watch}, {"--attach", o.attach}} {
		switch {
		case f.set && o.host == "func":
			return usagef("%s requires --host builtin", f.name)
		case f.set && o.handler != "":
			return usagef("%s and --handler exclude each other", f.name)
		}
	}
	if o.watch && o.attach {
		return usagef("--watch starts the process of the app, and --attach waits for one; use one of them")
	}
	return nil
}

// explainCrash describes a crash for people: its meaning and a remedy. It keeps
// other errors, and those that are joined with a crash.
func explainCrash(err error) error {
	crash, ok := errors.AsType[*localhost.CrashError](err)
	if !ok {
		return err
	}
	text := fmt.Sprintf("the handler crashed three times, each within 30 minutes of the previous one; the last time it %s. "+
		"The Functions host stops then, also in Azure, which starts another one. Correct the cause, then run this command again. "+
		"With --verbose it shows the whole log.", crash.How)
	if len(crash.Lines) > 0 {
		text += " The last lines on the handler's standard error:"
	}
	for _, line := range crash.Lines {
		text += "\n    " + readable(line)
	}
	return errors.New(strings.Replace(err.Error(), crash.Error(), text, 1))
}

// run runs the app until ctx ends.
func (o upOptions) run(ctx context.Context, con *console, show *screen) error {
	p, err := openProject(o.program)
	if err != nil {
		return err
	}
	options := &devrun.Options{
		Port: o.port, Data: o.data, Storage: o.storage, Handler: o.handler, Key: o.key, Entities: o.entities, Watch: o.watch, Attach: o.attach,
		Log: show, Served: show.served,
		Report: func(e devrun.Event) error {
			err := show.report(e)
			if o.open && e.Console != "" {
				go show.open(e.Console)
			}
			return err
		},
		Stopping: func() { show.write(con.stderr, "stopping; a second Ctrl+C ends kennel immediately\n") },
	}
	if o.host == "func" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program, to start it again: %w", err)
		}
		options.Tether = []string{self, "tether"}
	}
	app, err := devrun.New(p, con.appSettings(), options)
	if err != nil {
		return err
	}
	return app.Run(ctx)
}

// appSettings returns the variables of the environment that are settings of the
// app.
func (con *console) appSettings() map[string]string {
	env := maps.Clone(con.env)
	for _, name := range []string{keyVariable, urlVariable} {
		delete(env, name)
	}
	return env
}

// openProject finds and checks the project that contains the working directory.
// program is the package of its program, from there; "" for the usual one.
func openProject(program string) (*project.Project, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	p, err := project.Open(here, localhost.CheckFunction)
	if err != nil || program == "" {
		return p, err
	}
	if !filepath.IsAbs(program) {
		program = filepath.Join(here, program)
	}
	if p.Package, err = filepath.Rel(p.Root, program); err != nil {
		return nil, err
	}
	_, err = project.ProgramPackage(p.Root, p.Package)
	return p, err
}

// maybePackage allows one argument besides flags: the package of the program.
func maybePackage(cmd *cobra.Command, args []string) error { return unexpected(cmd, args, 1) }
