package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Store is what a Listener needs.
type Store interface {
	Receiver
	Putter
	Counter
}

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

	Redelivered bool    // it was received before: its work may be done
	Share       float64 // of the request that received it: 1 divided by its messages
}

// ListenerOptions are the optional parts of a listener; nil and zero fields
// mean the defaults.
type ListenerOptions struct {
	Signals Signals // default: none; the queues are polled

	// Admit returns whether messages of a queue may be received, and a channel
	// that is closed when the answer has changed. While they may not, no request
	// is made for the queue, and its messages use up no attempts; those that were
	// received before go on. The queue is polled as soon as they may. Admit is
	// called often and concurrently, and answers from memory. Default: all
	// queues are admitted.
	Admit func(queue string) (admitted bool, changed <-chan struct{})

	// Hands is the maximum number of messages that all queues together work on
	// at the same time; default 32, and at least two for each queue. One is kept
	// free for each queue that has none at work. HandsFor returns how many of
	// them a queue gets that has this many messages, the oldest of this age as
	// far as is known; default: all. It is called often and concurrently, and
	// answers from memory. If it returns fewer than before, what is at work goes
	// on; a change has its effect within a minute.
	Hands    int
	HandsFor func(messages int64, oldest time.Duration) int

	Lease       time.Duration // of a message, renewed at half; whole seconds; default 60 s
	MaxIdle     time.Duration // the maximum interval of polling an empty queue; default 30 s
	MaxAttempts int           // that count; then a message becomes a dead letter; default 5
	MaxWork     time.Duration // then the ctx of an attempt ends; default 30 min
	Drain       time.Duration // how long attempts may go on after Run was stopped; default 20 s

	Log *slog.Logger // default: discard

	// Tests of the package need other values.
	memory   int // default maxMemory
	requests int // default maxRequests
}

const (
	// maxMemory is how many bytes long bodies take at the same time if the codec
	// is a Sizer; a longer one is held alone. Decoding and the collector of the
	// Go runtime take some times as much.
	maxMemory = 16 << 20

	// maxRequests is how many deletes, returns and dead letters are sent at the
	// same time. Renewals have as many of their own.
	maxRequests = 16
)

const (
	safetyPoll = 10 * time.Minute // the interval of polling while signals are received, at least
	grace      = 2 * time.Second  // for handlers after their ctx has ended in a stop
	closing    = 5 * time.Second  // after that, for the last requests
)

// Listener receives messages from queues and passes them to a handler. The
// package comment describes what it promises.
type Listener[T any] struct {
	engine
	codec   Codec[T]
	sizer   Sizer  // the codec, if it is one
	tracer  Tracer // likewise
	handler Handler[T]
	done    finished // by Message.ID: done, but not deleted
	copies  finished // by Content.ID: what belonged to them is removed

	// returned are messages, by Message.ID, of which an attempt failed without
	// ending this process, or could not be recorded.
	returned finished
}

// engine is what a listener's parts share.
type engine struct {
	store      Store
	opt        ListenerOptions
	partitions []*partition
	memory     *semaphore.Weighted // bytes of long bodies
	renewals   chan struct{}       // a slot for each renewal under way
	writes     chan struct{}       // a slot for each other request that ends a delivery

	started   atomic.Bool
	stopping  context.Context // ends when Run is stopped: no message is begun
	work      context.Context // of handlers
	abandon   chan struct{}   // closed when handlers are waited for no longer
	end       context.Context // of requests
	crew      crew            // runs deliveries and handlers
	handling  atomic.Int64    // handlers that have not returned
	delivered sync.WaitGroup  // messages
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

// checkQueues reports what is wrong with the queues of a listener.
func checkQueues(queues []string) error {
	if len(queues) == 0 {
		return errors.New("there are no queues")
	}
	for i, queue := range queues {
		if slices.Contains(queues[:i], queue) {
			return fmt.Errorf("queue %q is listed twice", queue)
		}
		if err := CheckName(queue + PoisonSuffix); err != nil { // it is longer
			return err
		}
	}
	return nil
}

// withDefaults checks the options of a listener on so many queues, and sets
// those that are zero.
func (o *ListenerOptions) withDefaults(queues int) (ListenerOptions, error) {
	var opt ListenerOptions
	if o != nil {
		opt = *o
	}
	opt.Hands = cmp.Or(opt.Hands, max(32, 2*queues))
	opt.Lease = cmp.Or(opt.Lease, time.Minute)
	opt.MaxIdle = cmp.Or(opt.MaxIdle, 30*time.Second)
	opt.MaxAttempts = cmp.Or(opt.MaxAttempts, 5)
	opt.MaxWork = cmp.Or(opt.MaxWork, 30*time.Minute)
	opt.Drain = cmp.Or(opt.Drain, 20*time.Second)
	opt.memory = cmp.Or(opt.memory, maxMemory)
	opt.requests = cmp.Or(opt.requests, maxRequests)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	if opt.HandsFor == nil {
		opt.HandsFor = func(int64, time.Duration) int { return opt.Hands }
	}
	switch {
	case opt.Hands < queues:
		return opt, fmt.Errorf("queue.ListenerOptions.Hands is %d: use at least one for each of %d queues", opt.Hands, queues)
	case opt.Lease < 2*time.Second || opt.Lease%time.Second != 0 || opt.Lease > MaxVisibility:
		return opt, fmt.Errorf("queue.ListenerOptions.Lease is %v: use whole seconds, from 2 seconds to 7 days", opt.Lease)
	case opt.MaxIdle < firstIdle:
		return opt, fmt.Errorf("queue.ListenerOptions.MaxIdle is %v: use %v or more", opt.MaxIdle, firstIdle)
	case opt.MaxAttempts < 0:
		return opt, fmt.Errorf("queue.ListenerOptions.MaxAttempts is %d: use 1 or more", opt.MaxAttempts)
	case opt.MaxWork < 0:
		return opt, fmt.Errorf("queue.ListenerOptions.MaxWork is %v: use more than 0", opt.MaxWork)
	case opt.Drain < 0:
		return opt, fmt.Errorf("queue.ListenerOptions.Drain is %v: use more than 0", opt.Drain)
	}
	return opt, nil
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
			listenTo(ctx, l.opt.Signals, listenerSignals{&l.engine}, func(err error) {
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

func (e *engine) stopped() error {
	if n := e.handling.Load(); n > 0 {
		return fmt.Errorf("%d handlers did not return although their context ended %v ago; their messages were put back", n, grace)
	}
	return nil
}

// ErrNoAttempt reports that the work of a message could not be done, or its
// outcome not be stored, for a reason that is not the message: storage failed. A
// [Handler] wraps it. The message is received again after a wait that grows up
// to a minute, and no attempt is used up, however long that takes.
var ErrNoAttempt = errors.New("storage failed")

// ErrStopped is the cause of the end of a handler's ctx if the listener is
// stopped. Such an attempt does not count.
var ErrStopped = errors.New("the listener is stopping")

// errTooLong is the cause after MaxWork.
var errTooLong = errors.New("the attempt took longer than MaxWork")

// listenerSignals receives signals for a listener.
type listenerSignals struct{ *engine }

func (e listenerSignals) Up() {
	for _, p := range e.partitions {
		p.signal(func(n *arrived) { n.listens = append(n.listens, true) })
	}
}

func (e listenerSignals) Down(error) {
	for _, p := range e.partitions {
		p.signal(func(n *arrived) { n.listens = append(n.listens, false) })
	}
}

func (e listenerSignals) Received(s Signal) {
	for _, p := range e.partitions {
		if s.Queue == p.queue || s.Queue == "" {
			p.signal(func(n *arrived) {
				n.awake = n.awake || s.Kind == Awake
				n.work = n.work || s.Kind != Awake
			})
		}
	}
}
