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
	MaxAttempts int           // that count; then a message becomes a dead letter; default 5. Negative: the handler counts, see Again
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

// engine is the state that a listener's parts share.
type engine struct {
	store    Store
	opt      ListenerOptions
	memory   *semaphore.Weighted // bytes of long bodies
	renewals chan struct{}       // a slot for each renewal under way
	writes   chan struct{}       // a slot for each other request that ends a delivery

	started   atomic.Bool
	stopping  context.Context // ends when Run is stopped: no message is begun
	work      context.Context // of handlers
	abandon   chan struct{}   // closed when handlers are waited for no longer
	end       context.Context // of requests
	crew      crew            // runs deliveries and handlers
	handling  atomic.Int64    // handlers that have not returned
	delivered sync.WaitGroup  // messages
}

// checkQueues reports a mistake in the queues of a listener.
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
	case opt.MaxWork < 0:
		return opt, fmt.Errorf("queue.ListenerOptions.MaxWork is %v: use more than 0", opt.MaxWork)
	case opt.Drain < 0:
		return opt, fmt.Errorf("queue.ListenerOptions.Drain is %v: use more than 0", opt.Drain)
	}
	return opt, nil
}
