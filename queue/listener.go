package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Handler does the work of one message. After nil the message is deleted, after
// an error it is received again later, and after MaxAttempts it becomes a dead
// letter, unless the errors wrap ErrNoAttempt. The work may be done more than
// once. The ctx ends if the lease is lost, after MaxWork, and some time after Run
// was stopped. A handler that does not return then keeps its hand, while the
// message is received again.
type Handler[T any] func(ctx context.Context, d Delivery[T]) error

// Delivery is a message for a Handler.
type Delivery[T any] struct {
	Queue    string
	Body     T
	ID       string // the same for all copies of the message
	Attempt  int64  // counts from 1
	Inserted time.Time
	Message  Message // as it was received, for handlers that count attempts themselves

	Redelivered bool    // it was received before: its work may be done
	Share       float64 // of the request that received it: 1 divided by its messages
}

// Listener receives messages from queues and passes them to a handler. The
// package comment describes its promises.
type Listener[T any] struct {
	engine
	partitions []*partition
	codec      Codec[T]
	sizer      Sizer    // the codec, if it is one
	tracer     Tracer   // likewise
	returner   Returner // likewise
	handler    Handler[T]
	done       finished // by Message.ID: done, but not deleted
	copies     finished // by Content.ID: what belonged to them is removed

	// returned are messages, by Message.ID, of which an attempt failed without
	// ending this process, or could not be recorded.
	returned finished
}

// NewListener returns a listener on queues. It starts nothing.
func NewListener[T any](store Store, queues []string, codec Codec[T], handler Handler[T], options *ListenerOptions) (*Listener[T], error) {
	if store == nil || codec == nil || handler == nil {
		return nil, errors.New("new listener: the store, the codec or the handler is nil")
	}
	if err := checkQueues(queues); err != nil {
		return nil, fmt.Errorf("new listener: %w", err)
	}
	opt, err := options.withDefaults(len(queues))
	if err != nil {
		return nil, fmt.Errorf("new listener: %w", err)
	}
	l := &Listener[T]{codec: guarded[T]{codec}, handler: handler}
	l.sizer, _ = codec.(Sizer)
	l.tracer, _ = codec.(Tracer)
	l.returner, _ = codec.(Returner)
	l.engine = engine{
		store: store, opt: opt,
		memory:   semaphore.NewWeighted(int64(opt.memory)),
		renewals: make(chan struct{}, opt.requests),
		writes:   make(chan struct{}, opt.requests),
		abandon:  make(chan struct{}),
	}
	hands := newHands(opt.Hands, len(queues))
	for i, queue := range queues {
		l.partitions = append(l.partitions, newPartition(&l.engine, queue, hands.lanes[i]))
	}
	return l, nil
}

// Run receives messages until ctx ends. Then it receives no more, puts back
// what was not begun, gives attempts the time Drain to end, cancels the others
// and puts their messages back. It returns nil if it was called for the first
// time and all handlers have returned.
func (l *Listener[T]) Run(ctx context.Context) error {
	if l.started.Swap(true) {
		return errors.New("queue.Listener.Run was called twice")
	}
	l.stopping = ctx
	var cancelWork context.CancelCauseFunc
	l.work, cancelWork = context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancelWork(nil)
	var cancelEnd context.CancelFunc
	l.end, cancelEnd = context.WithCancel(context.WithoutCancel(ctx))
	defer cancelEnd()
	l.crew = make(crew)
	defer l.crew.dismiss()

	var running sync.WaitGroup
	for _, p := range l.partitions {
		running.Go(func() {
			p.run(ctx, func(m Message, r received) { l.deliver(p, m, r) })
		})
	}
	if l.opt.Signals != nil {
		running.Go(func() {
			listenTo(ctx, l.opt.Signals, listenerSignals(l.partitions), func(err error) {
				l.opt.Log.WarnContext(ctx, "cannot receive queue signals; polling instead", "error", fmt.Sprint(err))
			})
		})
	}
	<-ctx.Done()
	ended := make(chan struct{})
	go func() {
		running.Wait() // they may still start deliveries
		l.delivered.Wait()
		close(ended)
	}()
	for _, step := range []struct {
		after time.Duration
		do    func()
	}{
		{l.opt.Drain, func() { cancelWork(ErrStopped) }},
		{grace, func() { close(l.abandon) }},
		{closing, cancelEnd},
	} {
		timer := time.NewTimer(step.after)
		select {
		case <-timer.C:
			step.do()
		case <-ended:
			timer.Stop()
			return l.stopped()
		}
	}
	<-ended
	return l.stopped()
}

// State returns the state of each queue, in the order of NewListener.
func (l *Listener[T]) State() []QueueState {
	states := make([]QueueState, len(l.partitions))
	for i, p := range l.partitions {
		states[i] = p.state()
	}
	return states
}

func (e *engine) stopped() error {
	if n := e.handling.Load(); n > 0 {
		return fmt.Errorf("%d handlers did not return although their context ended %v ago; their messages were put back", n, grace)
	}
	return nil
}

// ErrStopped is the cause of the end of a handler's ctx if the listener is
// stopped. Such an attempt does not count.
var ErrStopped = errors.New("the listener is stopping")

// errTooLong is the cause after MaxWork.
var errTooLong = errors.New("the attempt took longer than MaxWork")

// listenerSignals receives signals for a listener.
type listenerSignals []*partition

func (all listenerSignals) Up() {
	for _, p := range all {
		p.signal(func(n *arrived) { n.listens = append(n.listens, true) })
	}
}

func (all listenerSignals) Down(error) {
	for _, p := range all {
		p.signal(func(n *arrived) { n.listens = append(n.listens, false) })
	}
}

func (all listenerSignals) Received(s Signal) {
	for _, p := range all {
		if s.Queue == p.queue || s.Queue == "" {
			p.signal(func(n *arrived) {
				n.awake = n.awake || s.Kind == Awake
				n.work = n.work || s.Kind != Awake
			})
		}
	}
}

// QueueState is the work of a listener on one queue, now and since its start.
type QueueState struct {
	Queue string
	Hands int // messages at work
	Pool  int // hands that all queues of the listener share

	Receives       int64 // requests
	EmptyReceives  int64
	FailedReceives int64

	Received    int64 // messages
	Done        int64 // messages deleted after their work
	Repeated    int64 // of them without work, because it was done in an earlier delivery
	Retried     int64 // failed attempts
	Returned    int64 // put back without an attempt
	DeadLetters int64
	LeasesLost  int64
	Ages        []int64          // messages received, by age; see Ages
	AgeSeconds  float64          // the sum of their ages
	HandSeconds float64          // for which attempts that have ended kept a hand, all together
	Latencies   []int64          // messages done, by the time since they were put, in the buckets of Ages
	LastDone    time.Time        // when a message was last deleted after its work; zero: none was
	Requests    map[string]int64 // to storage, by kind: receive, count, update, delete, put
}

// counters count since the start.
type counters struct {
	receives, empty, failed, counts, updates, deletes, puts atomic.Int64 // requests

	received, done, repeated, retried, returned, deadLetters, lost atomic.Int64 // done without repeated, so that neither difference nor sum goes down

	ages, latencies Ages
	handTime        atomic.Int64 // nanoseconds: 292 years of one hand
	lastDone        atomic.Int64 // Unix time in nanoseconds; 0: none
}
