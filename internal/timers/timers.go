// Package timers is the timers of a program: for each slot of a schedule, one
// process makes an attempt.
//
// A timer is a row of a table. Begin with claim.go, which has the protocol as
// pure state, and loop.go, which carries it out. A process that works by its own
// clock sends two requests for a slot that it does, and up to two for one that
// another process does, if the attempt lasts for up to 20 s; a longer one adds
// one in 20 s, and one in a minute in each other process. Between slots it sends
// none.
package timers

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/instances"
	"kennel/internal/program"
	"kennel/internal/schedule"
	"kennel/internal/table"
)

// Options are the optional parts of timers; nil and zero fields mean the
// defaults.
type Options struct {
	// Hosted means that the ticks of a Functions host wake the timers. Default:
	// the clock of the process does.
	Hosted bool

	// Drain is how long attempts may go on after the stop began; default 2 s.
	Drain time.Duration

	// Ready returns when attempts may begin; default: at once.
	Ready func(context.Context) error

	Log *slog.Logger // default: discard
}

func (o *Options) withDefaults() (Options, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	if opt.Drain == 0 {
		opt.Drain = 2 * time.Second
	}
	if opt.Drain < 0 {
		return opt, fmt.Errorf("timers.Options.Drain is %v: use more than 0", opt.Drain)
	}
	if opt.Ready == nil {
		opt.Ready = func(context.Context) error { return nil }
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	return opt, nil
}

// Timers is the timers of a program in one process.
type Timers struct {
	rows   *table.Table
	owner  string
	all    []*timer
	failed instances.Tracker[string, string] // the reason, by timer
}

// New returns the timers that a program declares. It makes no request.
func New(d *program.Declared, rows *table.Table, options *Options) (*Timers, error) {
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &Timers{rows: rows, owner: rand.Text()}
	for _, declared := range d.Timers {
		slots, err := schedule.Parse(declared.Schedule, declared.Zone)
		if err != nil {
			return nil, fmt.Errorf("timer %q: %w", declared.Name, err)
		}
		retry := func(a attempt.Attempt, err error) time.Duration {
			return attempt.WaitOrDefault(context.Background(), opt.Log, a, declared.Retry, err)
		}
		zone := cmp.Or(declared.Zone, "UTC")
		t.all = append(t.all, &timer{
			all: t, Timer: declared, zone: zone, wraps: d.UseWork, opt: opt, wake: make(chan struct{}, 1), ended: make(chan ending, 1),
			claim: claim{
				slots: slots, text: declared.Schedule + " " + zone, catchUp: declared.CatchUp, max: max(1, declared.MaxAttempts), retry: retry, owner: t.owner,
			},
		})
	}
	return t, nil
}

// Run takes slots and makes attempts until ctx ends, and then ends or puts back
// those that run.
func (t *Timers) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, one := range t.all {
		running.Go(func() { one.run(ctx) })
	}
	running.Wait()
	return nil
}

// Tick wakes a timer, as the Functions host does at its slots. It returns when
// the slots that have begun have ended, or when ctx ends.
func (t *Timers) Tick(ctx context.Context, name string) error {
	one := t.timer(name)
	if one == nil {
		return fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	done := make(chan struct{})
	one.mu.Lock()
	one.ticks = append(one.ticks, done)
	one.mu.Unlock()
	one.rouse(false)
	select {
	case <-done:
	case <-ctx.Done(): // an attempt goes on without the invocation
	}
	return nil
}

func (t *Timers) timer(name string) *timer {
	for _, one := range t.all {
		if one.Name == name {
			return one
		}
	}
	return nil
}

// Problems returns the timers whose last slot failed.
func (t *Timers) Problems() (all []instances.Problem) {
	for name, p := range t.failed.All() {
		all = append(all, instances.Problem{
			Code: instances.TimerFailed, Subject: name, Since: p.Since, Count: p.Count, What: fmt.Sprintf("The last slot of the timer failed: %s.", instances.OneLine(p.Cause)),
		})
	}
	slices.SortFunc(all, func(a, b instances.Problem) int { return cmp.Compare(a.Subject, b.Subject) })
	return all
}

// Facts reports nothing: what is known of a timer is in its row.
func (t *Timers) Facts(*instances.Report) {}

// The errors of this package, beside those of storage.
var (
	ErrUnknown = errors.New("the program declares no such timer")
	ErrRunning = errors.New("a slot of the timer runs or waits for its next attempt")
)
