// Package queues is the queues of a program: it sends messages, and works on them
// under the Functions host and in a worker by the same rules.
//
// A message is an envelope (package queue) that counts its failed attempts. How a
// delivery ends is decided by judge, from the envelope, the store's count of
// deliveries and what the handler returned. Under the host a message that is
// tried again is put again, and the invocation succeeds, so the host's own count
// never adds up; a worker updates it.
package queues

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/control"
	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/internal/program"
	"kennel/internal/trace"
	"kennel/internal/worker"
	"kennel/queue"
)

// Store is a client for the queues, whose messages never expire.
type Store interface {
	queue.Store
	queue.Peeker
}

// Options are the optional parts of queues; nil and zero fields mean the
// defaults.
type Options struct {
	Listening *worker.Listening // how a worker receives; default: a Functions host does
	Signals   queue.Signals     // wake workers; default: none
	Pauses    *control.Pauses   // of the declared queues, by people; default: none is paused
	Meter     *observe.Meter    // counts the invocations of a host; default: one of its own

	// Drain is how long attempts of a host's process may go on after its stop
	// began; default 2 s. In a worker the listener decides.
	Drain time.Duration

	// Ready returns when attempts may begin; default: at once.
	Ready func(context.Context) error

	// Others returns whether processes of another version run, which may read
	// messages that this one cannot; default: none do.
	Others func(context.Context) (bool, error)

	// Handlers returns for each other living process the declared queues on which it
	// works, each with its storage queues. known is false if they cannot be read;
	// default: that.
	Handlers func(context.Context) (others []map[string][]string, known bool)

	// Unserved are the storage queues for which the package of a host has no
	// function, so that it calls none here; default: none.
	Unserved map[string]bool

	// NewID returns the id of a new message; default: a random one.
	NewID func() string

	Log *slog.Logger // default: discard
}

func (o *Options) withDefaults() (Options, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	if opt.Meter == nil {
		opt.Meter = &observe.Meter{}
	}
	if opt.Ready == nil {
		opt.Ready = func(context.Context) error { return nil }
	}
	if opt.Others == nil {
		opt.Others = func(context.Context) (bool, error) { return false, nil }
	}
	if opt.Handlers == nil {
		opt.Handlers = func(context.Context) ([]map[string][]string, bool) { return nil, false }
	}
	if opt.NewID == nil {
		opt.NewID = rand.Text
	}
	opt.Drain = cmp.Or(opt.Drain, 2*time.Second)
	if opt.Drain < 0 {
		return opt, fmt.Errorf("queues.Options.Drain is %v: use more than 0", opt.Drain)
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	return opt, nil
}

// Queues is the queues of a program.
type Queues struct {
	store     Store
	claims    map[string]*queue.Claims // by storage queue
	publisher *queue.Publisher
	wraps     []func(attempt.Work) attempt.Work
	opt       Options

	all       []*program.Queue                 // in the order of their declarations
	declared  map[string]*own                  // by name
	lastDone  map[string]*atomic.Int64         // by storage queue, Unix time in nanoseconds; 0: none
	storage   map[string][]*own                // of which a storage queue has messages
	letters   map[string]*observe.LetterCount  // by storage queue, also of those to which the program only sends
	working   []string                         // the storage queues on which the program works
	unknown   instances.Tracker[string, error] // what this process could not work on, by queue
	late      instances.Tracker[string, int64] // storage queues with old messages, and how many are ready
	unhandled instances.Tracker[string, int64] // declared queues and former names without a living handler, and how many messages are ready
	stalled   stalled
	listeners []*queue.Listener[*delivery]

	// The stop of a host's process: no attempt begins after the first has ended,
	// and those that run end with the second.
	stopping, stopped context.Context
	stop              context.CancelFunc
	end               context.CancelCauseFunc
}

// own is a declared queue.
type own struct {
	*program.Queue
	slots chan struct{} // one for each attempt that runs
	counts
}

// New returns the queues that a program declares. claims returns those of a
// storage queue. It makes no request.
func New(d *program.Declared, store Store, claims func(storageQueue string) (*queue.Claims, error), options *Options) (*Queues, error) {
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	q := &Queues{
		store: store, wraps: d.UseWork, opt: opt,
		all: d.Queues, lastDone: make(map[string]*atomic.Int64), claims: make(map[string]*queue.Claims), declared: make(map[string]*own), storage: make(map[string][]*own), letters: make(map[string]*observe.LetterCount),
	}
	q.stopping, q.stop = context.WithCancel(context.Background())
	q.stopped, q.end = context.WithCancelCause(context.Background())
	for _, one := range d.Queues {
		o := &own{Queue: one, slots: make(chan struct{}, max(1, one.Concurrency))}
		q.declared[one.Name] = o
		for _, name := range append([]string{one.Storage()}, one.FormerNames...) {
			q.storage[name] = append(q.storage[name], o)
			if q.claims[name] == nil {
				q.lastDone[name] = &atomic.Int64{}
				if q.claims[name], err = claims(name); err != nil {
					return nil, err
				}
			}
		}
	}
	q.working = d.StorageQueues()
	for _, name := range slices.Concat(q.working, d.SentQueues()) {
		q.letters[name] = &observe.LetterCount{Queue: name}
	}
	if q.publisher, err = queue.NewPublisher(store, &queue.PublisherOptions{Signals: opt.Signals, Log: opt.Log}); err != nil {
		return nil, err
	}
	return q, q.listen(q.working)
}

// The errors of Send, beside those of the store.
var (
	ErrUnknown  = errors.New("the program declares no such queue")
	ErrTooLarge = errors.New("the message is too large")
	ErrDelay    = fmt.Errorf("the delay is negative, or not less than 7 days: use 0 to %v", MaxDelay)
)

const (
	sendTimeout = 30 * time.Second                    // of a caller without a deadline
	MaxDelay    = queue.MaxVisibility - 2*time.Second // the limit of storage, with room for its rounding
)

// Send sends a message, and returns its id when storage has confirmed it. After
// other errors than those of this package, the message may have been sent.
func (q *Queues) Send(ctx context.Context, name string, body []byte, delay time.Duration) (id string, err error) {
	o := q.declared[name]
	switch {
	case o == nil:
		return "", fmt.Errorf("%w: %q", ErrUnknown, name)
	case len(body) > queue.MaxContent:
		return "", fmt.Errorf("%w: it has %d bytes; use up to %d", ErrTooLarge, len(body), queue.MaxContent)
	case delay < 0 || delay > MaxDelay:
		return "", ErrDelay
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sendTimeout)
		defer cancel()
	}
	ctx, span := trace.Start(ctx, "send "+name, trace.Producer)
	defer span.End()
	storage := o.Storage()
	e := queue.Envelope{ID: q.opt.NewID(), Time: attempt.Now(ctx), TraceParent: trace.Parent(ctx), Private: o.Queue.Private}
	if name != storage {
		e.Queue = name
	}
	span.Text(trace.System, trace.Queues)
	span.Text(trace.Operation, "send")
	span.Text(trace.Queue, name)
	span.Text(trace.Message, e.ID)
	text, err := q.claims[storage].Pack(ctx, e, body)
	if err == nil {
		err = q.publisher.Publish(ctx, storage, worker.InBase64(text), delay)
	}
	if o.sent(err); err != nil {
		span.Fail(err.Error())
		return "", err
	}
	return e.ID, nil
}

// Run sends signals, sweeps, and counts the dead letters while there are any,
// until ctx ends. A sweep has no function of its own, which would wake a process
// each five minutes: what it removes may wait.
func (q *Queues) Run(ctx context.Context) error {
	context.AfterFunc(ctx, func() {
		q.stop()
		time.AfterFunc(q.opt.Drain, func() { q.end(attempt.ErrStopping) })
	})
	count := func(ctx context.Context) error {
		observe.Every(ctx, observe.Recounts.Every, func() {
			for _, letters := range q.letters {
				if letters.Known() {
					letters.CountNow(ctx, q.store) // an error is a problem of storage
				}
			}
		})
		return nil
	}
	return worker.Together(ctx, count, q.publisher.Run, worker.SweepOften("cannot sweep long bodies; trying again later", q.opt.Log, q.Sweep))
}

// Sweep deletes the claims that belong to no message.
func (q *Queues) Sweep(ctx context.Context) error {
	for _, claims := range q.claims { // all are in one table and one container
		n, err := claims.SweepKept(ctx, time.Now(), q.store.Count)
		if n > 0 {
			q.opt.Log.InfoContext(ctx, "long bodies without a message deleted", "claims", n)
		}
		return err
	}
	return nil
}

// Claims returns those of a storage queue; nil if it is none of the program's.
func (q *Queues) Claims(storageQueue string) *queue.Claims { return q.claims[storageQueue] }

// Announce wakes the workers of a storage queue.
func (q *Queues) Announce(storageQueue string) { q.publisher.Announce(storageQueue) }

// Wake implements the sampled source of package observe.
func (q *Queues) Wake(storageQueue string) {
	if q.claims[storageQueue] != nil {
		q.publisher.Announce(storageQueue)
	}
}

// Sample samples the queues on which the program works, and those to which it
// only sends.
func (q *Queues) Sample(ctx context.Context) (map[string]instances.QueueSample, error) {
	all := make(map[string]instances.QueueSample, len(q.letters))
	for name, letters := range q.letters {
		sample, err := observe.SampleQueue(ctx, q.store, letters)
		if err != nil {
			return nil, err
		}
		sample.Own = true
		all[name] = sample
		if !slices.Contains(q.working, name) {
			continue // where messages wait long is a problem of who works on them
		}
		if sample.OldestSeconds > lateAfter.Seconds() {
			q.late.Occurred(name, sample.Ready, lateLasts)
		} else {
			q.late.Solved(name)
		}
	}
	q.markHeld(ctx, all)
	q.watchUnhandled(ctx, all)
	return all, nil
}

// unknownLasts is how long a message that this process could not work on is a
// problem.
const unknownLasts = 15 * time.Minute

// lateAfter is for how long a message waits before that is a problem, which lasts
// until the next sample, or for a time.
const (
	lateAfter = 24 * time.Hour
	lateLasts = 10 * time.Minute
)

// Problems returns the dead letters, the queues whose messages wait long or have
// no living handler, and the messages that this process could not work on.
func (q *Queues) Problems() (all []instances.Problem) {
	for _, name := range sortedKeys(q.letters) {
		all = append(all, q.letters[name].Problems()...)
	}
	var foreign []instances.Problem
	for name, p := range q.unknown.All() {
		foreign = append(foreign, instances.Problem{
			Code: instances.QueueForeign, Subject: name, Since: p.Since, Count: p.Count,
			What: fmt.Sprintf("Messages are put back because this build cannot work on them: %v. They stay until another build does, or until an operator deletes them.", p.Cause),
		})
	}
	var late []instances.Problem
	for name, p := range q.late.All() {
		late = append(late, instances.Problem{
			Code: instances.QueueLate, Subject: name, Since: p.Since, Count: p.Cause,
			What: fmt.Sprintf("A message in queue %s waits for more than a day; %d are ready.", name, p.Cause) + q.whyHeld(name),
		})
	}
	return slices.Concat(all, observe.Oldest(q.unhandledProblems()), observe.Oldest(late), observe.Oldest(foreign))
}

// Facts reports the messages that this process sends and works on.
func (q *Queues) Facts(r *instances.Report) {
	all := make(map[string]instances.Messaging)
	for name, o := range q.declared {
		if m, any := o.report(); any {
			all[name] = m
		}
	}
	instances.MessagingSection.Add(r, all)
	instances.HandledSection.Add(r, q.handles())
	for _, l := range q.listeners {
		worker.ReportWork(r, l)
	}
}

// Declared returns the declared queues.
func (q *Queues) Declared() []*program.Queue { return q.all }

// LastDone returns when this process last finished the work of a message of a
// storage queue; zero: it did not.
func (q *Queues) LastDone(storageQueue string) time.Time {
	if at := q.lastDone[storageQueue].Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Check returns why a queue does not take a body.
func (q *Queues) Check(name string, body []byte) error {
	o := q.declared[name]
	if o == nil {
		return fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	if o.Check == nil {
		return nil
	}
	return o.Check(body)
}
