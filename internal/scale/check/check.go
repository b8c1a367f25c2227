package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kennel/internal/instances"
	"kennel/internal/scale"
	"kennel/internal/table"
	"kennel/queue"
)

// problemLasts is how long the result of a check is a problem of this
// process. The next check may be another process's.
const problemLasts = 5 * time.Minute

// Facts are the facts about the app that a check reads.
type Facts struct {
	Reports []instances.Report               // of all live processes, with [Parts]
	Depths  map[string]instances.QueueSample // of the queues that exist, as just sampled
}

// Parts returns what a check reads of reports.
func Parts() []instances.Part {
	return []instances.Part{instances.RunningSection, instances.WorkSection, instances.RecentSection}
}

// Target is the container app that is scaled.
type Target interface {
	// Replicas returns the minimum and the maximum of instances.
	Replicas(ctx context.Context) (minimum, maximum int, err error)

	// SetMinimum changes the minimum of instances.
	SetMinimum(ctx context.Context, n int) error
}

// Errors of a [Target]. After any other error, a change may have been made.
var (
	ErrDenied = errors.New("the identity of the app may not read or change the target")
	ErrBusy   = errors.New("the target cannot be changed now")
)

// defaultTarget is the name of the target if none is set.
const defaultTarget = "instances"

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
