package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"kennel/internal/dev/localhost"
	"kennel/internal/dev/project"
)

// How often the sources are compared with those of the last build. A build
// begins once they have not changed between two looks, so that one save of
// several files is one build.
const watchInterval = 250 * time.Millisecond

// stopTime is how long a handler that is replaced may take to stop after
// SIGTERM.
const stopTime = 10 * time.Second

// A sourceState has what tells a changed file from an unchanged one, by
// path.
type sourceState map[string]string

// readSources returns the state of all files that can change what runs: Go
// files, modules, functions and host.json, and what Go files may embed.
func readSources(root string, embedded []string) sourceState {
	state := make(sourceState)
	add := func(path string, entry fs.DirEntry) {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			state[path] = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
		}
	}
	// What cannot be read now is read the next time.
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return nil
		case !entry.IsDir():
			if isWatched(root, path) {
				add(path, entry)
			}
		case path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || filepath.Dir(path) == root && (name == "dist" || name == "bin")):
			return filepath.SkipDir
		}
		return nil
	})
	for _, name := range embedded {
		_ = filepath.WalkDir(filepath.Join(root, filepath.FromSlash(name)), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				add(path, entry)
			}
			return nil
		})
	}
	return state
}

func isWatched(root, path string) bool {
	name := filepath.Base(path)
	switch filepath.Ext(name) {
	case ".go":
		return !strings.HasSuffix(name, "_test.go")
	case ".mod", ".sum":
		return name == "go.mod" || name == "go.sum"
	case ".json":
		return name == "function.json" && strings.HasPrefix(path, filepath.Join(root, "functions")+string(filepath.Separator)) ||
			name == "host.json" && filepath.Dir(path) == root
	}
	return false
}

// A watch notices changes of the sources.
type watch struct {
	project *project.Project

	mu       sync.Mutex
	embedded []string    // guarded by mu
	built    sourceState // that was built last, or could not be built; guarded by mu
}

func newWatch(p *project.Project) *watch {
	w := &watch{project: p, embedded: p.Embedded()}
	w.built = w.read()
	return w
}

// read returns the present state. Its caller has mu, or is alone.
func (w *watch) read() sourceState { return readSources(w.project.Root, w.embedded) }

// changed compares the present state with that of the look before, and takes one
// that is no longer being changed as built.
func (w *watch) changed(before sourceState) (now sourceState, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now = w.read()
	if changed = maps.Equal(now, before) && !maps.Equal(now, w.built); changed {
		w.built = now
	}
	return now, changed
}

// next returns a channel that gets a value once the sources have changed and are
// no longer being changed.
func (w *watch) next(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{}, 1)
	w.mu.Lock()
	before := w.built
	w.mu.Unlock()
	go func() {
		ticker := time.NewTicker(watchInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			now, has := w.changed(before)
			if has {
				changed <- struct{}{}
				return
			}
			before = now
		}
	}()
	return changed
}

// staged takes note of the functions that staging wrote among the sources, and of
// what the program embeds now.
func (w *watch) staged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	isFunction := func(path, _ string) bool { return filepath.Base(path) == "function.json" }
	now := w.read()
	maps.DeleteFunc(w.built, isFunction)
	for path, state := range now {
		if isFunction(path, state) {
			w.built[path] = state
		}
	}
	w.embedded = w.project.Embedded()
	for path, state := range w.read() {
		if _, known := now[path]; !known { // embedded since this build
			w.built[path] = state
		}
	}
}

// A life is one run of the local host.
type life struct {
	stop  func()
	ended chan error // gets one value; nil: it was received
}

// runWatched runs the app in the local host, and again after each change that
// builds: the old handler stops in order, what it has not finished goes back to
// its queue, and new connections wait at the port until the new one answers. A
// request that comes while it stops may be answered with 503. While a change does
// not build, the app runs on as it is.
func (a *App) runWatched(ctx context.Context, h hosted, ready func(error)) error {
	port, ok := h.listener.(*net.TCPListener)
	if !ok {
		return errors.New("the port cannot pass from one host to the next")
	}
	announced := false // by one goroutine at a time: a host begins after the one before has ended
	greet := func(began time.Time, functions []string) func(problem error) {
		return func(problem error) {
			switch {
			case problem != nil:
				a.warn(problem.Error())
			case announced:
				a.inform(Event{Event: "restarted", Functions: functions, Seconds: time.Since(began).Seconds()})
			default:
				announced = true
				ready(nil)
			}
		}
	}
	live := a.live(ctx, h, port, greet(time.Now(), nil))
	for changed := a.watch.next(ctx); ; {
		select {
		case err := <-live.ended:
			if ctx.Err() != nil {
				return err
			}
			live.ended = nil
			a.warn(fmt.Sprintf("%v; the app starts again after the next change", err))
		case <-changed:
			live = a.rebuild(ctx, h, port, live, greet)
			changed = a.watch.next(ctx)
		case <-ctx.Done():
			if live.ended == nil {
				return nil
			}
			return <-live.ended
		}
	}
}

// live starts a host at the port. It calls ready with the problem of its handler.
func (a *App) live(ctx context.Context, h hosted, port *net.TCPListener, ready func(error)) life {
	ctx, stop := context.WithCancel(ctx)
	_ = port.SetDeadline(time.Time{}) // which the host before has set; fails if the port is closed
	h.listener = lentListener{port}
	l := life{stop, make(chan error, 1)}
	go func() { l.ended <- a.runBuiltin(ctx, h, ready) }()
	return l
}

// rebuild stages the changed project and, if that changes what runs, replaces
// the host. It returns the one that runs then.
func (a *App) rebuild(ctx context.Context, h hosted, port *net.TCPListener, old life,
	greet func(began time.Time, functions []string) func(error)) life {
	began := time.Now()
	crashed, stopped := old.ended == nil, false
	stop := func() {
		stopped = true
		if crashed {
			return
		}
		old.stop()
		if err := <-old.ended; err != nil {
			a.warn(err.Error())
		}
	}
	step := a.begin("handler", "building")
	p, err := a.reopen()
	if err == nil {
		err = a.stageProject(ctx, p, func() {}, stop)
	}
	a.watch.staged()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		step.fail("the change is not used")
		a.warn(err.Error())
	case stopped:
		a.project = p
		step.done("built")
	default:
		step.done("unchanged")
	}
	if !stopped && (!crashed || err != nil) {
		return old
	}
	return a.live(ctx, h, port, greet(began, a.project.Functions))
}

// firstStage stages the project. While that fails, it waits for a change.
func (a *App) firstStage(ctx context.Context, building func()) error {
	err := a.stageProject(ctx, a.project, building, nil)
	if a.watch == nil {
		return err
	}
	for a.watch.staged(); err != nil && ctx.Err() == nil; a.watch.staged() {
		a.warn(fmt.Sprintf("%v\nThe app starts after the next change.", err))
		select {
		case <-a.watch.next(ctx):
		case <-ctx.Done():
			return ctx.Err()
		}
		var p *project.Project
		if p, err = a.reopen(); err == nil {
			a.project = p
			err = a.stageProject(ctx, p, building, nil)
		}
	}
	return err
}

// reopen reads the project again.
func (a *App) reopen() (*project.Project, error) {
	p, err := project.Open(a.project.Root, localhost.CheckFunction)
	if err != nil {
		return nil, err
	}
	p.Package = a.project.Package
	p.Prefix = a.storage.Prefix
	return p, p.Partition(a.partitions)
}
