package memory

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"kennel/gate"
	"kennel/internal/signal"
	"kennel/queue"
)

// SignalFault is the fault of one signal to one listener. With the zero
// SignalFault the signal arrives immediately and once.
type SignalFault struct {
	Lost  bool
	Delay time.Duration // different delays reorder signals
	Twice bool
}

// The options of Signals and of QueueSignals; nil and zero mean none.
type (
	SignalOptions      = TopicOptions[gate.Signal]
	QueueSignalOptions = TopicOptions[queue.Signal]
)

// TopicOptions are the options of a [Topic]; nil and zero mean none.
type TopicOptions[S any] struct {
	// Fault returns the fault of a signal to a listener. Listeners are counted
	// from 1. It is called concurrently.
	Fault func(listener int, s S) SignalFault

	Connect time.Duration // how long a listener takes to connect
}

// ErrCutOff is the error of Publish and Listen between Break and Mend.
var ErrCutOff = errors.New("signals are cut off")

type (
	// Signals is a [gate.Signals], and QueueSignals a [queue.Signals].
	Signals      = Topic[gate.Signal]
	QueueSignals = Topic[queue.Signal]
)

// Topic is a [signal.Signals] in one process, with a subscription per listener.
// It is safe for concurrent use.
type Topic[S any] struct {
	opt TopicOptions[S]

	mu        sync.Mutex
	open      []*subscription[S]
	count     int // of all subscriptions so far
	broken    error
	published int64
}

// subscription is one call of Listen and the signals in transit to it.
// Topic.mu guards it.
type subscription[S any] struct {
	n        int
	up       bool
	cut      error // why it was cut off since Listen last checked
	messages []sentSignal[S]
	wake     chan struct{} // signalled when a field changes; size 1
}

type sentSignal[S any] struct {
	at     time.Time // of arrival
	signal S
}

// NewSignals returns signals without listeners.
func NewSignals(o *SignalOptions) *Signals { return NewTopic(o) }

// NewQueueSignals returns signals without listeners.
func NewQueueSignals(o *QueueSignalOptions) *QueueSignals { return NewTopic(o) }

// NewTopic returns signals of any kind, without listeners.
func NewTopic[S any](o *TopicOptions[S]) *Topic[S] {
	s := &Topic[S]{}
	if o != nil {
		s.opt = *o
	}
	return s
}

// Publish sends a signal to all listeners.
func (s *Topic[S]) Publish(ctx context.Context, signal S) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	s.published++
	for _, e := range s.open {
		if e.up {
			s.post(e, signal)
		}
	}
	return nil
}

// post sends a signal to one listener. Its caller holds mu.
func (s *Topic[S]) post(e *subscription[S], signal S) {
	var fault SignalFault
	if s.opt.Fault != nil {
		fault = s.opt.Fault(e.n, signal)
	}
	if fault.Lost {
		return
	}
	p := sentSignal[S]{time.Now().Add(fault.Delay), signal}
	e.messages = append(e.messages, p)
	if fault.Twice {
		p.at = p.at.Add(fault.Delay)
		e.messages = append(e.messages, p)
	}
	e.notify()
}

// Listen implements [signal.Signals].
func (s *Topic[S]) Listen(ctx context.Context, l signal.Listener[S]) error {
	s.mu.Lock()
	s.count++
	e := &subscription[S]{n: s.count, wake: make(chan struct{}, 1)}
	s.open = append(s.open, e)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open = slices.DeleteFunc(s.open, func(other *subscription[S]) bool { return other == e })
	}()

	up := false
	connected := time.Now().Add(s.opt.Connect)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := time.Now()
		s.mu.Lock()
		cut, broken := e.cut, s.broken
		e.cut = nil
		if cut != nil {
			connected = now.Add(s.opt.Connect)
		}
		e.up = broken == nil && !now.Before(connected)
		rises := e.up && (!up || cut != nil)
		due, wait := e.take(now)
		s.mu.Unlock()

		if cut != nil && up {
			l.Down(cut)
			up = false
		}
		if rises {
			l.Up()
			up = true
		}
		for _, signal := range due {
			l.Received(signal)
		}
		if !up && broken == nil {
			wait = min(wait, connected.Sub(now))
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-e.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// take returns the signals that have arrived and how long to wait for the next
// one. Its caller holds Topic.mu.
func (e *subscription[S]) take(now time.Time) (due []S, wait time.Duration) {
	wait = time.Hour
	e.messages = slices.DeleteFunc(e.messages, func(p sentSignal[S]) bool {
		if p.at.After(now) {
			wait = min(wait, p.at.Sub(now))
			return false
		}
		due = append(due, p.signal)
		return true
	})
	return due, wait
}

func (e *subscription[S]) notify() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Break cuts all listeners off until Mend, and loses the signals in transit.
func (s *Topic[S]) Break() { s.setBroken(ErrCutOff) }

// Mend restores the connections after Break.
func (s *Topic[S]) Mend() { s.setBroken(nil) }

func (s *Topic[S]) setBroken(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
	for _, e := range s.open {
		if err != nil {
			e.up, e.cut, e.messages = false, err, nil
		}
		e.notify()
	}
}

// Listening returns how many listeners would receive a signal.
func (s *Topic[S]) Listening() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, e := range s.open {
		if e.up {
			n++
		}
	}
	return n
}

// Published returns how many signals were sent so far.
func (s *Topic[S]) Published() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.published
}
