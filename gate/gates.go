package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"kennel/internal/cas"
)

// Errors that callers branch on, beside ErrCorrupt.
var (
	// ErrInvalid reports an invalid argument. The text of the error that wraps
	// it describes only the mistake.
	ErrInvalid = errors.New("invalid")

	// ErrUnknown reports that the state of the gate could not be read. The
	// gate counts as closed.
	ErrUnknown = errors.New("the state of the gate is not known")

	// ErrUnclear reports that the store did not confirm in time whether the
	// gate was changed. Repeating the change does no harm.
	ErrUnclear = cas.ErrUnclear

	// ErrStopped reports that this process is stopping and admits no waiter.
	ErrStopped = errors.New("the gates are stopped")

	// ErrTooMany reports that this process has waiters at as many gates as it
	// can watch.
	ErrTooMany = errors.New("too many gates are being watched")
)

// invalidError is an error that wraps ErrInvalid and whose text is only what is
// invalid, so that it can be shown to a caller.
type invalidError string

func invalid(format string, args ...any) error { return invalidError(fmt.Sprintf(format, args...)) }

func (e invalidError) Error() string        { return string(e) }
func (e invalidError) Is(target error) bool { return target == ErrInvalid }

// MaxWatched is at how many gates a process has waiters at most. It bounds the
// memory and the requests that callers can cause with new names.
const MaxWatched = 1000

// Options adjusts Gates. Nil and zero fields mean the defaults.
type Options struct {
	Signals Signals // announces changes from process to process; nil: gates are polled

	PollOften  time.Duration // between two reads of a gate while signals are not received; default 2.5 s
	PollRarely time.Duration // … while they are; default 30 s

	CallTimeout   time.Duration // of each request to the store and each signal sent; default 5 s
	ChangeTimeout time.Duration // of a release or close with all its requests; default 20 s

	Log *slog.Logger // default: nothing is logged
}

func (o *Options) withDefaults() (Options, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	opt.PollOften = cmp.Or(opt.PollOften, 2500*time.Millisecond)
	opt.PollRarely = cmp.Or(opt.PollRarely, max(30*time.Second, opt.PollOften))
	opt.CallTimeout = cmp.Or(opt.CallTimeout, 5*time.Second)
	opt.ChangeTimeout = cmp.Or(opt.ChangeTimeout, 20*time.Second)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	switch {
	case opt.PollOften < 10*time.Millisecond:
		return opt, fmt.Errorf("gate.Options.PollOften is %v: use at least 10 ms", opt.PollOften)
	case opt.PollRarely < opt.PollOften:
		return opt, fmt.Errorf("gate.Options.PollRarely is %v: use at least PollOften (%v)", opt.PollRarely, opt.PollOften)
	case opt.CallTimeout < 0:
		return opt, fmt.Errorf("gate.Options.CallTimeout is %v: use a positive duration", opt.CallTimeout)
	case opt.ChangeTimeout < 0:
		return opt, fmt.Errorf("gate.Options.ChangeTimeout is %v: use a positive duration", opt.ChangeTimeout)
	}
	return opt, nil
}

// Gates is all gates of one store, as one process sees and changes them. Its
// methods may be called concurrently. Waiting needs Run to be running; reading
// a state and changing it do not.
type Gates struct {
	store Store
	opt   Options

	jitter func(bound time.Duration) time.Duration // a random time below bound

	mu        sync.Mutex
	watches   map[string]*watch // guarded by mu, and so are their fields
	start     func(*watch)      // starts one; nil unless Run is running
	stopped   bool
	receiving bool // signals
	listened  bool // Signals has reported whether they are received

	wasUp        bool                // signals were received once
	cannotListen bool                // Listen has returned an error, and signals were not received since
	listening    Failure             // while they are not received, since Run began
	sending      Failure             // of the last signal
	unreadable   map[string]*Failure // by gate
}

// New returns the gates of a store. It does no I/O and starts nothing.
func New(store Store, options *Options) (*Gates, error) {
	if store == nil {
		return nil, errors.New("new gates: the store is nil")
	}
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Gates{
		store:   store,
		opt:     opt,
		jitter:  rand.N[time.Duration],
		watches: make(map[string]*watch),

		unreadable: make(map[string]*Failure),
	}, nil
}

// errNoTime is that of a store whose answer has no time: a release needs it for a
// generation that was not used before.
var errNoTime = errors.New("the store did not report the time of its answer")

func (g *Gates) load(ctx context.Context, gate, seen string) (Value, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opt.CallTimeout)
	defer cancel()
	v, err := g.store.Load(ctx, gate, seen)
	if err == nil && v.ReadAt.IsZero() {
		err = errNoTime
	}
	return v, err
}

func (g *Gates) replace(ctx context.Context, gate string, old, next Value) (Value, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opt.CallTimeout)
	defer cancel()
	return g.store.Replace(ctx, gate, old, next)
}
