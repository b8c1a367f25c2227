package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"kennel/internal/instances"
	"kennel/internal/scale"
	"kennel/internal/table"
	"kennel/queue"
)

const (
	// every is the interval of checks.
	every = time.Minute

	// minPause is the time between two checks, at least, so that one that is a
	// little early counts. A process that did not make the last check waits for
	// standbyPause, so that the same process goes on.
	minPause     = 45 * time.Second
	standbyPause = 90 * time.Second

	// runTimeout limits one check.
	runTimeout = 30 * time.Second

	sweepEvery = time.Hour // for old rows of the history

	// problemLasts is how long the result of a check is a problem of this
	// process. The next check may be another process's.
	problemLasts = 5 * time.Minute
)

// Facts are the facts about the app that a check reads.
type Facts struct {
	Reports []instances.Report               // of all live processes, with [Parts]
	Depths  map[string]instances.QueueSample // of the queues that exist, as just sampled
}

// Parts returns what a check reads of reports.
func Parts() []instances.Part {
	return []instances.Part{instances.RunningSection, instances.WorkSection, instances.RecentSection}
}

// Options are the optional parts of a check; nil and zero fields mean the
// defaults.
type Options struct {
	Wake    func(queue string) // signals work in a queue; default: nothing
	Latency time.Duration      // from the put of a message until it is done; default 15 min
	Keep    time.Duration      // of the history; default 30 days

	Target     Target // what is scaled; default: none, the advice is only kept
	TargetName string // default "instances"
	Apply      bool   // change the target; otherwise only compare

	Log *slog.Logger // default: discard
}

func (o *Options) withDefaults() (Options, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	opt.Latency = cmp.Or(opt.Latency, 15*time.Minute)
	opt.Keep = cmp.Or(opt.Keep, 30*24*time.Hour)
	opt.TargetName = cmp.Or(opt.TargetName, defaultTarget)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	if opt.Wake == nil {
		opt.Wake = func(string) {}
	}
	switch {
	case opt.Latency < 0:
		return opt, fmt.Errorf("check.Options.Latency is %v: use a positive duration", opt.Latency)
	case opt.Keep < 0:
		return opt, fmt.Errorf("check.Options.Keep is %v: use a positive duration", opt.Keep)
	}
	return opt, nil
}

// Check is the check of one process. Its methods may be called concurrently.
type Check struct {
	rows   *table.Table
	read   func(context.Context) (Facts, error)
	rules  *ruleBook
	inUse  atomic.Pointer[scale.Rules]       // that this process knows; nil: the default ones
	denied instances.Tracker[string, string] // why the target denies this process a right that it needs
	opt    Options

	mu      sync.Mutex
	sweptAt time.Time // when this process last swept, by the store's clock; guarded by mu
}

// New returns a check that keeps its rows in a table and its rules in blobs. It
// makes no request.
func New(rows table.Store, blobs queue.Blobs, read func(context.Context) (Facts, error), options *Options) (*Check, error) {
	if rows == nil || blobs == nil || read == nil {
		return nil, errors.New("new check of scaling: the table, the blobs or the facts are nil")
	}
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	repeated, err := table.New(rows)
	if err != nil {
		return nil, err
	}
	return &Check{rows: repeated, read: read, rules: &ruleBook{blobs: blobs, log: opt.Log}, opt: opt}, nil
}

// Loop checks until ctx ends. If another process checks, it only looks every few
// minutes whether that one still does, so that many processes cost little.
func (c *Check) Loop(ctx context.Context) error {
	pause := standbyPause
	for wait := rand.N(every); table.Pause(ctx, wait) == nil; {
		ran, err := c.run(ctx, pause)
		if err != nil && ctx.Err() == nil {
			c.opt.Log.WarnContext(ctx, "cannot check scaling; trying again later", "error", err.Error())
		}
		if wait, pause = every, minPause; !ran && err == nil {
			wait, pause = 2*every+rand.N(2*every), standbyPause
		}
	}
	return nil
}

// Run checks, unless a check began or ended lately. It reports whether it did.
func (c *Check) Run(ctx context.Context) (ran bool, err error) { return c.run(ctx, minPause) }

// run checks, unless the last check wrote its row within a time.
func (c *Check) run(ctx context.Context, pause time.Duration) (ran bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	last, at, err := c.load(ctx)
	if err != nil {
		return false, err
	}
	if at.Sub(last.writtenAt) < pause {
		if last.rules != nil {
			c.inUse.Store(last.rules)
		}
		return false, nil
	}
	skew := time.Since(at)
	if last.version, err = c.claim(ctx, last); err != nil {
		return false, notOther(err)
	}
	facts, err := c.read(ctx)
	if err != nil {
		return false, fmt.Errorf("read the queues and instances: %w", err)
	}
	reading := c.readingOf(at, facts)
	correct(&reading, skew)
	for _, s := range reading.Samples {
		if s.Ready > 0 && !s.Held {
			c.opt.Wake(s.Queue)
		}
	}
	rules, err := c.rules.load(ctx)
	if err != nil {
		return false, err
	}
	c.inUse.Store(&rules)
	advice, state := scale.Advise(rules, last.state, reading)
	last.state, last.rules, last.record = state, &rules, c.record(reading, advice, facts.Reports, last.record.Outcome)
	if last.version, err = c.keep(ctx, last); err != nil {
		return false, notOther(err)
	}
	c.opt.Log.DebugContext(ctx, "scaling checked", "instances", advice.Instances, "running", reading.Instances, "reason", advice.Reason)
	return true, errors.Join(c.apply(ctx, last, advice.Instances), c.sweep(ctx, at))
}

// notOther returns nil for the error of a write that another process preceded:
// that one checks.
func notOther(err error) error {
	if table.IsConflict(err) {
		return nil
	}
	return err
}

// Problems returns the problems that the rules are invalid and that the target
// denies a right, if this process met them lately.
func (c *Check) Problems() []instances.Problem {
	var all []instances.Problem
	for _, p := range c.rules.invalid.All() {
		all = append(all, instances.Problem{Code: instances.RulesInvalid, Since: p.Since, Count: 1,
			What: fmt.Sprintf("The last valid rules of scaling are used instead of those that are stored: %v.", p.Cause)})
	}
	for target, p := range c.denied.All() {
		all = append(all, instances.Problem{Code: instances.ScaleDenied, Subject: target, Since: p.Since, Count: p.Count,
			What: fmt.Sprintf("The advice on scaling has no effect: %s.", p.Cause)})
	}
	return all
}
