package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"kennel/internal/table"
)

// Publisher puts messages into queues and signals the listeners. It is safe for
// concurrent use. See the package comment for its promises.
type Publisher struct {
	store   Putter
	signals Signals // nil: none
	log     *slog.Logger
	slots   chan struct{} // one for each put under way

	wake chan struct{} // a notice changed; size 1

	mu      sync.Mutex
	started bool               // Run was called; guarded by mu
	notices map[string]*notice // by queue; guarded by mu
	state   PublisherState     // guarded by mu
}

// PublisherOptions are the optional parts of a publisher; nil and zero fields
// mean the defaults.
type PublisherOptions struct {
	Signals Signals      // default: none; listeners then poll
	Log     *slog.Logger // default: discard

	parallel int // puts at the same time, in tests of the package; default 32
}

func (o *PublisherOptions) withDefaults() PublisherOptions {
	var opt PublisherOptions
	if o != nil {
		opt = *o
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	opt.parallel = cmp.Or(opt.parallel, 32)
	return opt
}

// PublisherState is what a publisher did since its start.
type PublisherState struct {
	Puts      int64 // requests, repeated ones included
	Published int64 // messages that the store confirmed
	Unclear   int64 // messages that may exist
	Signals   int64 // sent
}

// NewPublisher returns a publisher. It starts nothing; signals are sent while
// Run runs.
func NewPublisher(store Putter, options *PublisherOptions) (*Publisher, error) {
	if store == nil {
		return nil, errors.New("new publisher: the store is nil")
	}
	opt := options.withDefaults()
	return &Publisher{
		store:   store,
		signals: opt.Signals,
		log:     opt.Log,
		slots:   make(chan struct{}, opt.parallel),
		wake:    make(chan struct{}, 1),
		notices: make(map[string]*notice),
	}, nil
}

// Publish puts a message that is not received before delay. It returns when the
// store has confirmed the message, and repeats the put where it failed, so the
// message may exist more than once: the body carries an identity by which its
// receivers notice that. An error that does not wrap ErrUnclear reports that
// the message does not exist.
func (p *Publisher) Publish(ctx context.Context, queue, body string, delay time.Duration) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("publish a message: %w", ctx.Err())
	}
	tries, err := putRetried(ctx, p.store, queue, body, delay)
	<-p.slots

	unclear := errors.Is(err, ErrUnclear)
	p.mu.Lock()
	p.state.Puts += int64(tries)
	switch {
	case err == nil:
		p.state.Published++
	case unclear:
		p.state.Unclear++
	}
	p.mu.Unlock()
	if err == nil || unclear {
		p.Announce(queue)
	}
	if err != nil {
		return fmt.Errorf("publish a message: %w", err)
	}
	return nil
}

// Announce signals work in a queue, as after Publish. It is for a message that
// the caller put by itself, or may have put.
func (p *Publisher) Announce(queue string) {
	if p.signals == nil {
		return
	}
	p.mu.Lock()
	p.notice(queue).put()
	p.mu.Unlock()
	notify(p.wake)
}

// State returns the state of the publisher.
func (p *Publisher) State() PublisherState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Run sends signals until ctx ends. It returns nil when those of messages
// published before are sent, or after two seconds, and an error only if it was
// called before.
func (p *Publisher) Run(ctx context.Context) error {
	p.mu.Lock()
	again := p.started
	p.started = true
	p.mu.Unlock()
	if again {
		return errors.New("queue.Publisher.Run was called twice")
	}
	if p.signals == nil {
		<-ctx.Done()
		return nil
	}
	var running sync.WaitGroup
	running.Go(func() {
		listenTo(ctx, p.signals, publisherSignals{p}, func(err error) {
			p.log.DebugContext(ctx, "cannot receive queue signals; signalling also while a listener is awake", "error", fmt.Sprint(err))
		})
	})
	sending, endSending := context.WithCancel(context.WithoutCancel(ctx))
	defer endSending()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stopped := ctx.Done()
	var deadline time.Time // set when ctx has ended
	for {
		wait, open := p.send(sending, &running)
		if !deadline.IsZero() {
			left := time.Until(deadline)
			if !open || left <= 0 {
				endSending()
				running.Wait()
				return nil
			}
			wait = min(wait, left)
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-p.wake:
		case <-stopped:
			stopped, deadline = nil, time.Now().Add(2*signalEvery)
		}
	}
}

// send begins the signals that are due. It returns how long to wait for the
// next one, and whether there are any to wait for.
func (p *Publisher) send(ctx context.Context, running *sync.WaitGroup) (wait time.Duration, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	wait = time.Hour
	for queue, n := range p.notices {
		at, wanted := n.due()
		open = open || wanted || n.sending
		switch {
		case !wanted:
		case at.After(now):
			wait = min(wait, at.Sub(now))
		default:
			n.begin(now)
			running.Go(func() { p.signal(ctx, queue, n) })
		}
	}
	return wait, open
}

// signal sends one signal.
func (p *Publisher) signal(ctx context.Context, queue string, n *notice) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := p.signals.Publish(ctx, Signal{Queue: queue, Kind: Work})
	if err != nil {
		p.log.WarnContext(ctx, "cannot signal work in a queue; listeners find it when they poll", "queue", queue, "error", err.Error())
	}
	p.mu.Lock()
	if err == nil {
		p.state.Signals++
	}
	n.sent(time.Now(), err)
	p.mu.Unlock()
	notify(p.wake)
}

// notice returns the notice of a queue. Its caller holds mu.
func (p *Publisher) notice(queue string) *notice {
	n := p.notices[queue]
	if n == nil {
		n = &notice{}
		p.notices[queue] = n
	}
	return n
}

// maxNotices bounds the queues whose signals are remembered although this
// publisher has put nothing there.
const maxNotices = 1000

// publisherSignals receives signals for a publisher. The connection does not
// matter to it: a signal that it misses is one that it sends itself.
type publisherSignals struct{ p *Publisher }

func (publisherSignals) Up()        {}
func (publisherSignals) Down(error) {}

func (s publisherSignals) Received(signal Signal) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if signal.Queue != "" && (len(s.p.notices) < maxNotices || s.p.notices[signal.Queue] != nil) {
		s.p.notice(signal.Queue).received(time.Now(), rand.N(signalEvery/2))
	}
}

// listenAgain is how long after a failed attempt to listen another one is
// made: rights are sometimes given after the start.
const listenAgain = 5 * time.Minute

// listenTo keeps listening to signals until ctx ends.
func listenTo(ctx context.Context, signals Signals, h SignalHandler, failed func(error)) {
	for {
		err := signals.Listen(ctx, h)
		if ctx.Err() != nil {
			return
		}
		h.Down(err)
		failed(err)
		if table.Pause(ctx, listenAgain) != nil {
			return
		}
	}
}

// notify signals a channel of size 1.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
