package kennel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"

	"kennel/internal/attempt"
	"kennel/internal/inside"
	"kennel/internal/parts"
	"kennel/internal/program"
)

// A Program declares the parts of a program. It opens nothing, reads no setting
// and calls nothing outside: it also runs for `describe`, without network and
// settings. Its error is that of a declaration that cannot be made.
type Program func(*App) error

// App is what a [Program] declares its parts on. Declarations do not fail: Main
// prints all their errors together.
type App struct {
	declared program.Declared
	running  atomic.Pointer[parts.Running] // set before the first attempt or request
	traces   parts.TraceOpener             // nil: none
	ended    bool                          // the declarations
}

// Main runs a program as the arguments of the process request, and ends the
// process: with code 0 after SIGINT or SIGTERM, or after its host ended; 1 if it
// could not start, or a part of it failed; 2 for unknown arguments. The name is
// that of the program in its storage account: 3 to 35 lower-case letters, digits
// and single hyphens, first a letter.
//
// Without arguments the process serves a Functions host, which starts it. The
// others are
//
//	worker [--listen ADDRESS]  work on queues and timers without a host
//	probe [--listen ADDRESS]   ask a worker whether it lives
//	describe                   print what the program consists of, as JSON
func Main(name string, p Program) {
	os.Exit(execute(context.Background(), name, p, os.Args[1:], parts.Outside{Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}))
}

// ExitError is the error of [Run] with the exit code that [Main] would use.
type ExitError struct{ Code int }

// Error implements error.
func (e *ExitError) Error() string {
	return fmt.Sprintf("the program ended with exit code %d; its reason is on standard error", e.Code)
}

// Run runs a program as args request until ctx ends, a signal arrives or a part
// fails. It is Main for programs with a command line of their own.
func Run(ctx context.Context, name string, p Program, args []string) error {
	if o := inside.OpeningOf(ctx); o != nil {
		return open(name, p, o)
	}
	if code := execute(ctx, name, p, args, parts.Outside{Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}); code != 0 {
		return &ExitError{code}
	}
	return nil
}

// execute runs a program, and returns the exit code.
func execute(ctx context.Context, name string, p Program, args []string, outside parts.Outside) int {
	a, err := declare(name, p)
	if err != nil {
		fmt.Fprintf(outside.Stderr, "%s: the program cannot run:\n%v\n", name, err)
		return 1
	}
	return parts.Main(ctx, &a.declared, a.traces, func(r *parts.Running) { a.running.Store(r) }, args, outside)
}

// declare returns what a program declares. Its error has all mistakes.
func declare(name string, p Program) (*App, error) {
	a := &App{declared: program.Declared{Name: name, Uses: make(map[program.Part]bool)}}
	if p == nil {
		return nil, errors.New("the program is nil")
	}
	err := p(a)
	a.ended = true
	a.traces = inside.TakeTraces(a)
	return a, errors.Join(err, a.declared.Check())
}

// open opens a program in a test.
func open(name string, p Program, o *inside.Opening) error {
	a, err := declare(name, p)
	if err != nil {
		return err
	}
	if o.Running, err = parts.OpenForTest(&a.declared, o.Outside); err != nil {
		return err
	}
	o.Declared = &a.declared
	a.running.Store(o.Running)
	return nil
}

// mistake records an error of a declaration. It panics when nobody reads them any
// more.
func (a *App) mistake(format string, values ...any) {
	err := fmt.Errorf(format, values...)
	if a.ended {
		panic(err)
	}
	a.declared.Mistakes = append(a.declared.Mistakes, err)
}

// declaring panics once the program runs: a declaration would have no effect, and
// nobody reads its mistakes any more. In OnStart that is a failed start, and in a
// handler a failed attempt.
func (a *App) declaring(what string, values ...any) {
	if a.ended {
		panic(fmt.Errorf("%w after the declarations have ended: do it in the function that Main gets", fmt.Errorf(what, values...)))
	}
}

// OnStart has start called before the first attempt or request, and never for
// describe: settings can be read from then on. Its context lives until the stop
// begins, so it may start loops. The stops, which may be nil, are called in
// reverse order after the last attempt. An error or a panic ends the process. A stop
// waits five seconds for a start that does not return when its context ends.
func (a *App) OnStart(start func(ctx context.Context) (stop func(ctx context.Context) error, err error)) {
	a.declaring("OnStart is called")
	if start == nil {
		a.mistake("OnStart: the function is nil")
		return
	}
	a.declared.Starts = append(a.declared.Starts, start)
}

// Work is one attempt, as [App.UseWork] wraps it.
type Work func(ctx context.Context) error

// UseWork wraps every attempt of a queue, timer and processor, in the order of
// the calls: the first one is the outermost. A panic of the attempt reaches it as
// a [*PanicError]; [OutcomeOf] tells its outcomes apart.
func (a *App) UseWork(wrap func(next Work) Work) {
	a.declaring("UseWork is called")
	if wrap == nil {
		a.mistake("UseWork: the function is nil")
		return
	}
	a.declared.UseWork = append(a.declared.UseWork, func(next attempt.Work) attempt.Work { return attempt.Work(wrap(Work(next))) })
}

// UseHTTP wraps every route of the program, in the order of the calls. The
// built-in routes are not wrapped.
func (a *App) UseHTTP(wrap func(http.Handler) http.Handler) {
	a.declaring("UseHTTP is called")
	if wrap == nil {
		a.mistake("UseHTTP: the function is nil")
		return
	}
	a.declared.UseHTTP = append(a.declared.UseHTTP, wrap)
}

// EnableAll uses all built-in parts, with the processors "billing" and "webhook",
// as the Kennel app does.
func (a *App) EnableAll() {
	a.declaring("EnableAll is called")
	a.declared.UseAll()
}
