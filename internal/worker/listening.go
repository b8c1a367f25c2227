// Package worker does the work of queues: how a process without a Functions host
// receives messages, what an invocation of a host does during an outage, and where
// messages go that can never be carried out.
package worker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"kennel/internal/config"
	"kennel/internal/instances"
	"kennel/internal/table"
	"kennel/queue"
)

// Listening is how a process without a Functions host receives messages.
type Listening struct {
	signals  queue.Signals                  // nil: it only polls
	HandsFor func(int64, time.Duration) int // how many messages of a queue it works on at the same time, by the rules
	received func(error)                    // takes how each receive ended
	Ready    chan struct{}                  // closed when the rules are known, or cannot be read
	lease    time.Duration
	maxIdle  time.Duration
	drain    time.Duration
	timeout  time.Duration // of the work of a message
	log      *slog.Logger
}

// NewListening returns what the settings say.
func NewListening(cfg config.Config, signals queue.Signals, received func(error), log *slog.Logger) *Listening {
	return &Listening{
		signals: signals, received: received, Ready: make(chan struct{}),
		lease: cfg.WorkerLease, maxIdle: cfg.IdlePoll, drain: cfg.WorkerDrain, timeout: cfg.InvocationTimeout, log: log,
	}
}

// Options returns those of a listener, which its user may change.
func (l *Listening) Options() *queue.ListenerOptions {
	return &queue.ListenerOptions{Signals: l.signals, HandsFor: l.HandsFor, Lease: l.lease, MaxIdle: l.maxIdle, Drain: l.drain, Log: l.log}
}

// observedStore is a store whose receives are observed.
type observedStore struct {
	queue.Store
	received func(error)
}

// Receive implements [queue.Receiver].
func (s observedStore) Receive(ctx context.Context, name string, max int, visibility time.Duration) ([]queue.Message, error) {
	messages, err := s.Store.Receive(ctx, name, max, visibility)
	s.received(err)
	return messages, err
}

// Listen returns a listener that works on messages, each within the timeout.
func Listen[T any](l *Listening, store queue.Store, names []string, codec queue.Codec[T], work func(context.Context, queue.Delivery[T]) error, options *queue.ListenerOptions) (*queue.Listener[T], error) {
	return queue.NewListener(observedStore{store, l.received}, names, codec, func(ctx context.Context, d queue.Delivery[T]) error {
		ctx, cancel := context.WithTimeout(ctx, l.timeout)
		defer cancel()
		return work(ctx, d)
	}, options)
}

// ListenUntimed is Listen for work with time limits of its own.
func ListenUntimed[T any](l *Listening, store queue.Store, names []string, codec queue.Codec[T], work queue.Handler[T], options *queue.ListenerOptions) (*queue.Listener[T], error) {
	return queue.NewListener(observedStore{store, l.received}, names, codec, work, options)
}

// ReportWork reports the messages that a listener works on and worked on.
func ReportWork[T any](r *instances.Report, l *queue.Listener[T]) {
	running, work := make(map[string]int64), make(map[string]instances.Work)
	for _, s := range l.State() {
		if s.Hands > 0 {
			running[s.Queue] = int64(s.Hands)
		}
		work[s.Queue] = instances.Work{
			Receives: s.Receives, EmptyReceives: s.EmptyReceives, FailedReceives: s.FailedReceives,
			Done: s.Done - s.Repeated, Repeated: s.Repeated, Retried: s.Retried, Returned: s.Returned, DeadLetters: s.DeadLetters, Lost: s.LeasesLost,
			Ages: s.Ages, AgeSeconds: s.AgeSeconds, HandSeconds: s.HandSeconds, Latencies: s.Latencies, Pool: int64(s.Pool),
		}
	}
	instances.RunningSection.Add(r, running)
	instances.WorkSection.Add(r, work)
}

// AfterRules returns what runs once the rules for hands are known.
func (l *Listening) AfterRules(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		<-l.Ready
		return run(ctx)
	}
}

// Together runs parts of the work until ctx ends. If one fails, the others end.
func Together(ctx context.Context, parts ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		group.Go(func() error { return part(ctx) })
	}
	return group.Wait()
}

// SweepEvery is the interval of a worker's sweeps, which differs by up to a
// tenth. It is that of the timer in functions/ChannelSweep.
const SweepEvery = 5 * time.Minute

// SweepOften returns a function that sweeps until ctx ends, first at a random
// time within the interval. Each worker and the timers of the Functions app do
// it: sweeping twice is harmless and costs a few requests, less than to agree on
// one process.
func SweepOften(cannot string, log *slog.Logger, sweep func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for wait := rand.N(SweepEvery); ; wait = SweepEvery*9/10 + rand.N(SweepEvery/5) {
			if table.Pause(ctx, wait); ctx.Err() != nil {
				return nil
			}
			one, cancel := context.WithTimeout(ctx, SweepEvery/2)
			if err := sweep(one); err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, cannot, "error", err.Error())
			}
			cancel()
		}
	}
}

// NewTestListening returns how tests without settings receive messages: without
// rules. Signals may be nil.
func NewTestListening(lease, maxIdle, drain time.Duration, signals queue.Signals) *Listening {
	l := &Listening{signals: signals, received: func(error) {}, Ready: make(chan struct{}), lease: lease, maxIdle: maxIdle, drain: drain, timeout: 30 * time.Minute, log: slog.New(slog.DiscardHandler)}
	close(l.Ready)
	return l
}
