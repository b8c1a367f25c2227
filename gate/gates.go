package gate

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"
)

// What callers branch on, beside ErrCorrupt.
var (
	// ErrInvalid says that the caller has asked for what cannot be. It is
	// always wrapped in what is wrong.
	ErrInvalid = errors.New("invalid")

	// ErrUnknown says that a wait is over, and that the last look at the gate
	// has shown nothing: so it counts as shut.
	ErrUnknown = errors.New("the state of the gate is not known")

	// ErrUnclear says that the store has not answered in time: it is not known
	// whether the gate was changed. Asking again does no harm.
	ErrUnclear = errors.New("the gate was perhaps changed, and perhaps not")

	// ErrStopped says that this process is stopping and lets nobody pass any
	// more.
	ErrStopped = errors.New("the gates are not watched any more")

	// ErrTooMany says that there are waiters of this process at as many gates
	// as may be.
	ErrTooMany = errors.New("too many gates are being watched")
)

// maxWatched bounds the memory and the requests that callers can cause with
// new names.
const maxWatched = 1000

// Options adjusts Gates. Nil and zero fields mean the defaults.
type Options struct {
	// Signals carries releases from process to process. Nil: there are none,
	// and waiting is by polling alone.
	Signals Signals

	// Instance names this process among all. It decides when in each interval
	// the process polls. Default: a random name.
	Instance string

	// PollOften is the time between two looks at a gate while signals are not
	// heard. Default 2.5 s.
	PollOften time.Duration

	// PollRarely is the time between two looks while signals are heard.
	// Default 30 s.
	PollRarely time.Duration

	// CallTimeout bounds each request to the store and each signal sent.
	// Default 5 s.
	CallTimeout time.Duration

	// ChangeTimeout bounds a release or closing, however often the store has
	// to be asked. Default 20 s.
	ChangeTimeout time.Duration

	// Linger is how long a gate is watched after the last waiter has left, for
	// those who come back. Default 1 min.
	Linger time.Duration

	// Log hears of gates that cannot be read, and of signals that cannot be
	// sent or heard. Default: nobody.
	Log *slog.Logger
}

func (o *Options) withDefaults() (Options, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	opt.Instance = cmp.Or(opt.Instance, rand.Text())
	opt.PollOften = cmp.Or(opt.PollOften, 2500*time.Millisecond)
	opt.PollRarely = cmp.Or(opt.PollRarely, max(30*time.Second, opt.PollOften))
	opt.CallTimeout = cmp.Or(opt.CallTimeout, 5*time.Second)
	opt.ChangeTimeout = cmp.Or(opt.ChangeTimeout, 20*time.Second)
	opt.Linger = cmp.Or(opt.Linger, time.Minute)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	switch {
	case opt.PollOften < 10*time.Millisecond:
		return opt, fmt.Errorf("gate.Options.PollOften is %v: give at least 10 ms", opt.PollOften)
	case opt.PollRarely < opt.PollOften:
		return opt, fmt.Errorf("gate.Options.PollRarely is %v: give at least PollOften (%v)", opt.PollRarely, opt.PollOften)
	case opt.CallTimeout < 0:
		return opt, fmt.Errorf("gate.Options.CallTimeout is %v: give a positive duration", opt.CallTimeout)
	case opt.ChangeTimeout < 0:
		return opt, fmt.Errorf("gate.Options.ChangeTimeout is %v: give a positive duration", opt.ChangeTimeout)
	case opt.Linger < 0:
		return opt, fmt.Errorf("gate.Options.Linger is %v: give a positive duration", opt.Linger)
	}
	return opt, nil
}

// Gates is all gates of one store, as one process sees and changes them. Its
// methods may be called concurrently. Waiting needs Run to be running; asking
// for a state and changing it do not.
type Gates struct {
	store Store
	opt   Options

	fresh  chan struct{}                           // wakes Run when there is a watcher to start; size 1
	jitter func(bound time.Duration) time.Duration // a random wait below bound, of who changes a gate

	mu       sync.Mutex
	watchers map[string]*watcher // guarded by mu, and so is what is in them
	starting []*watcher          // made and not yet started by Run
	running  bool
	stopped  bool
	up       bool // signals are heard
	listened bool // … or have been listened for at least
}

// New returns the gates of a store. It does no I/O and starts nothing.
func New(store Store, options *Options) (*Gates, error) {
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Gates{
		store:    store,
		opt:      opt,
		fresh:    make(chan struct{}, 1),
		jitter:   mathrand.N[time.Duration],
		watchers: make(map[string]*watcher),
	}, nil
}
