package servicebus

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"kennel/gate"
	"kennel/internal/control"
	"kennel/internal/signal"
	"kennel/queue"
)

// Listen implements [gate.Signals]. All calls, and those of [Queues.Listen],
// share one subscription and one connection.
func (s *Signals) Listen(ctx context.Context, to gate.Listener) error {
	return s.attend(ctx, ofGates{to})
}

// Queues returns the signals of queues over the same topic, with the same
// subscription.
func (s *Signals) Queues() Queues { return Queues{s} }

// Queues implements [queue.Signals].
type Queues struct{ signals *Signals }

// Publish implements [queue.Signals].
func (q Queues) Publish(ctx context.Context, signal queue.Signal) error {
	m := message{Queue: signal.Queue}
	if signal.Kind == queue.Awake {
		m.Kind = kindAwake
	}
	if err := q.signals.publish(ctx, m); err != nil {
		return fmt.Errorf("send a signal of queue %q: %w", signal.Queue, err)
	}
	return nil
}

// Listen implements [queue.Signals].
func (q Queues) Listen(ctx context.Context, to queue.SignalHandler) error {
	return q.signals.attend(ctx, ofQueues{to})
}

// Control returns the signals of pauses over the same topic, with the same
// subscription.
func (s *Signals) Control() Control { return Control{s} }

// Control implements [control.Signals].
type Control struct{ signals *Signals }

// Publish implements [control.Signals].
func (c Control) Publish(ctx context.Context, _ control.Signal) error {
	if err := c.signals.publish(ctx, message{Control: true}); err != nil {
		return fmt.Errorf("send a signal of pauses: %w", err)
	}
	return nil
}

// Listen implements [control.Signals].
func (c Control) Listen(ctx context.Context, to signal.Listener[control.Signal]) error {
	return c.signals.attend(ctx, ofControl{to})
}

// receiver is one call of Listen. Its methods do not block.
type receiver interface {
	Up()
	Down(why error)
	received(m message)
}

type ofGates struct{ gate.Listener }

func (r ofGates) received(m message) {
	if m.Queue == "" && !m.Control {
		r.Received(gate.Signal{Gate: m.Gate, Generation: m.Generation})
	}
}

type ofQueues struct{ queue.SignalHandler }

func (r ofQueues) received(m message) {
	signal := queue.Signal{Queue: m.Queue}
	if m.Kind == kindAwake {
		signal.Kind = queue.Awake
	}
	if m.Queue != "" || m.Gate == "" && !m.Control {
		r.Received(signal)
	}
}

type ofControl struct {
	signal.Listener[control.Signal]
}

func (r ofControl) received(m message) {
	if m.Control || m.Queue == "" && m.Gate == "" {
		r.Received(control.Signal{})
	}
}

// audience is all receivers of a subscription.
type audience struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when listening has ended …
	err    error         // … for this reason

	mu        sync.Mutex // held during calls of the receivers
	up        bool
	receivers []*receiver
}

// attend passes signals to a receiver until ctx ends or this process is denied
// to listen. The first receiver begins to listen, and the last one ends it.
func (s *Signals) attend(ctx context.Context, r receiver) error {
	a := s.join(&r)
	select {
	case <-a.ended:
		return a.err
	case <-ctx.Done():
	}
	if s.leave(a, &r) {
		a.cancel()
		<-a.ended
	}
	return nil
}

func (s *Signals) join(r *receiver) *audience {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.current; a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.receivers = append(a.receivers, r)
		if a.up {
			(*r).Up()
		}
		return a
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &audience{cancel: cancel, ended: make(chan struct{}), receivers: []*receiver{r}}
	s.current = a
	go func() {
		defer cancel()
		a.err = s.listen(ctx, a)
		s.mu.Lock()
		if s.current == a {
			s.current = nil
		}
		s.mu.Unlock()
		close(a.ended)
	}()
	return a
}

// leave removes a receiver and reports whether it was the last one.
func (s *Signals) leave(a *audience, r *receiver) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.receivers = slices.DeleteFunc(a.receivers, func(other *receiver) bool { return other == r })
	if len(a.receivers) > 0 {
		return false
	}
	if s.current == a {
		s.current = nil
	}
	return true
}

// rise reports that signals are received from now on.
func (a *audience) rise() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.up = true
	for _, r := range a.receivers {
		(*r).Up()
	}
}

// down reports that signals may be missed from now on.
func (a *audience) down(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.up = false
	for _, r := range a.receivers {
		(*r).Down(why)
	}
}

// received delivers a message.
func (a *audience) received(m message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.receivers {
		(*r).received(m)
	}
}
