package relay

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	batchSize    = 100
	parallel     = 16               // sends of one queue at a time
	maxHeld      = 1000             // messages locked in vain by one pass
	searchEvery  = 10               // of passes in vain: each of these looks behind the first batch
	maxHeldTime  = 20 * time.Second // since the first of them; locks last a minute
	renewBefore  = 30 * time.Second // the end of a lock
	readWait     = time.Second      // for the next message of a pass
	idleWait     = time.Minute      // for the first message of a pass, in Run
	settleWithin = 5 * time.Second
	oneByOne     = 5 * time.Minute // after an unreadable message

	minHeldPause = 200 * time.Millisecond // after a pass that held messages
	maxHeldPause = 5 * time.Second        // if their targets work
)

// Syphon moves messages from the backlog queues to their entities. Any number
// of them may run at once, in any processes: a message is locked while one
// moves it, and those of a session keep their order.
//
// A message is sent and then completed. If the syphon stops in between, it is
// sent once more, with the same message ID.
type Syphon struct {
	options            Options
	queues             []string
	primary, secondary *links
	paths              paths

	mu     sync.Mutex
	single map[string]time.Time // by queue: until when to receive one at a time
	inVain map[string]int       // by queue: passes in a row that only held messages
	again  map[string]time.Time // by queue: when a message that was held may be moved
	total  Result               // without Held and More
}

// NewSyphon returns a syphon. See [NewSender] for the queues.
func NewSyphon(primary, secondary Namespace, queues []string, options *Options) (*Syphon, error) {
	complete, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Syphon{
		options: complete, queues: queues,
		primary:   newLinks(primary, func() {}),
		secondary: newLinks(secondary, func() {}),
		paths:     paths{all: make(map[string]*path)},
		single:    make(map[string]time.Time),
		inVain:    make(map[string]int),
		again:     make(map[string]time.Time),
	}, nil
}

// Result counts the messages of a pass by their outcome.
type Result struct {
	Moved        int64
	DeadLettered int64
	Expired      int64 // their time to live ended in the backlog
	Held         int64 // stay in the backlog, because their targets fail or earlier ones of their session are there
	LockLost     int64 // left to another syphon
	Unreadable   int64 // batches with a message that cannot be decoded

	// Ambiguous attempts to send, and sent messages that could not be
	// completed: each may have caused one duplicate.
	Ambiguous, Unsettled int64

	More bool // messages may be left
}

func (r *Result) add(o Result) {
	r.Moved += o.Moved
	r.DeadLettered += o.DeadLettered
	r.Expired += o.Expired
	r.Held += o.Held
	r.LockLost += o.LockLost
	r.Unreadable += o.Unreadable
	r.Ambiguous += o.Ambiguous
	r.Unsettled += o.Unsettled
	r.More = r.More || o.More
}

// Stats returns what became of the messages of all passes since the syphon was
// created, also of those of Run, without Held and More.
func (s *Syphon) Stats() Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Run moves messages until the context ends. It returns the context's error
// after all moves under way are settled.
func (s *Syphon) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, queue := range s.queues {
		wg.Go(func() { s.run(ctx, queue) })
	}
	wg.Wait()
	<-ctx.Done()
	return context.Cause(ctx)
}

func (s *Syphon) run(ctx context.Context, queue string) {
	pause := time.Duration(0)
	for ctx.Err() == nil {
		r, err := s.pass(ctx, queue, idleWait, false)
		switch {
		case err != nil && ctx.Err() == nil:
			s.options.OnEvent(Event{At: time.Now(), Kind: QueueFailed, Queue: queue, Cause: err})
			pause = min(max(2*pause, time.Second), 30*time.Second)
		case r.Held > 0:
			pause = s.untilAgain(queue)
		default:
			pause = 0
			continue
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// Pass moves what is in the backlog now, and returns when it is empty, when
// only messages are left that cannot be moved now, or when the context ended
// and all moves under way are settled, which takes up to 15 s. Its error has
// the errors of all queues, equal ones once. A queue that gives no message
// within a second counts as empty: that costs one operation.
func (s *Syphon) Pass(ctx context.Context) (Result, error) { return s.passAll(ctx, false) }

// PassAndPeek is a Pass that looks into the queues that gave no message, too.
// Without More, the backlog is empty; after Pass, messages may be left in a queue
// that was slow or had them locked.
func (s *Syphon) PassAndPeek(ctx context.Context) (Result, error) { return s.passAll(ctx, true) }

func (s *Syphon) passAll(ctx context.Context, peek bool) (Result, error) {
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		sum Result
		all []error
	)
	for _, queue := range s.queues {
		wg.Go(func() {
			r, err := s.pass(ctx, queue, readWait, peek)
			mu.Lock()
			defer mu.Unlock()
			sum.add(r)
			if err != nil && !slices.ContainsFunc(all, func(other error) bool { return other.Error() == err.Error() }) {
				all = append(all, err)
			}
		})
	}
	wg.Wait()
	sum.More = sum.More || sum.Held > 0 || all != nil || ctx.Err() != nil
	return sum, errors.Join(all...)
}

// Close closes both connections, after Run and Pass returned.
func (s *Syphon) Close(ctx context.Context) error {
	return errors.Join(s.primary.close(ctx), s.secondary.close(ctx))
}

// pass receives from a queue until it is empty. Messages that cannot be moved
// stay locked until its end, so that they do not come again and again while
// others wait behind them. With peek it also checks that a queue that gave
// nothing is empty.
func (s *Syphon) pass(ctx context.Context, queue string, wait time.Duration, peek bool) (Result, error) {
	p := &pass{s: s, queue: queue}
	defer p.release()
	most := s.mayHold(queue)
	defer func() { s.passed(p) }()
	for {
		batch, err := p.receive(ctx, s.batch(queue), wait)
		switch {
		case ctx.Err() != nil:
			p.hold(batch...)
			return p.result(true), nil
		case err != nil && classOf(err) == Unreadable:
			s.mu.Lock()
			s.single[queue] = time.Now().Add(oneByOne)
			s.mu.Unlock()
			p.count(Result{Unreadable: 1})
			s.options.OnEvent(Event{At: time.Now(), Kind: BadMessage, Queue: queue, Cause: err})
			continue
		case err != nil:
			return p.result(true), err
		case len(batch) == 0:
			r := p.result(false)
			if (peek || r.Moved > 0) && r.Held == 0 {
				// A namespace that became silent, and messages that another
				// syphon has locked, look like the end of the queue.
				page, err := s.secondary.peek(ctx, s.options.attemptTimeout, queue, 0)
				if r.More = err != nil || len(page) > 0; !r.More && r.Moved > 0 {
					s.options.OnEvent(Event{At: time.Now(), Kind: Drained, Queue: queue})
				}
			}
			return r, nil
		}
		p.move(ctx, batch)
		wait = readWait
		if len(p.held) > most || len(p.held) > 0 && time.Since(p.since) > maxHeldTime {
			return p.result(true), nil
		}
	}
}

// mayHold returns how many messages a pass may hold before it ends. In a long
// outage, most passes hold one batch only: each message that is locked in vain
// costs two operations.
func (s *Syphon) mayHold(queue string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inVain[queue]%searchEvery != 0 {
		return 0
	}
	return maxHeld
}

// passed keeps what the next pass needs to know of one.
func (s *Syphon) passed(p *pass) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := p.sum; r.Held > 0 && r.Moved+r.DeadLettered+r.Expired == 0 {
		s.inVain[p.queue]++
	} else {
		s.inVain[p.queue] = 0
	}
	// Another syphon may hold earlier messages of their sessions.
	now := time.Now()
	waited := now.Add(min(minHeldPause<<min(s.inVain[p.queue], 10), maxHeldPause))
	again := now.Add(maxPathPause)
	for _, d := range p.held {
		entity, _ := d.Message.ApplicationProperties[propPath].(string)
		until := s.paths.until(entity)
		if !until.After(now) {
			until = waited
		}
		if until.Before(again) {
			again = until
		}
	}
	s.again[p.queue] = again
}

// untilAgain returns how long to wait after a pass that held messages.
func (s *Syphon) untilAgain(queue string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(time.Until(s.again[queue]), minHeldPause)
}

// batch returns how many messages to receive. A batch with an unreadable
// message stays locked as a whole, so for a while after one it is one message.
func (s *Syphon) batch(queue string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.single[queue]) {
		return 1
	}
	return batchSize
}

func (p *pass) receive(ctx context.Context, n int, wait time.Duration) (batch []*Delivery, err error) {
	err = p.s.secondary.of(p.queue).do(ctx, wait, func(ctx context.Context, c Connection) error {
		var err error
		batch, err = c.Receive(ctx, p.queue, n)
		return err
	})
	// A message whose lock ended may come after later ones.
	slices.SortFunc(batch, func(a, b *Delivery) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return batch, err
}
