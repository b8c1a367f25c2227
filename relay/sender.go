package relay

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// maxMessage is how many bytes the entities accept, from which 1 KiB is reserved
// for the envelope.
const maxMessage = 256 << 10

// Sender sends messages to the entities of the primary namespace, and to the
// backlog queues of the secondary while that does not work. It is safe for
// concurrent use.
type Sender struct {
	options Options
	primary *links
	pings   Namespace // the primary: each ping has its own connection
	backlog *backlog  // nil without a secondary

	// The pings outlive the sends that cause them.
	background context.Context
	stop       context.CancelFunc
	running    sync.WaitGroup

	mu       sync.Mutex
	entities map[string]*entity
	trials   map[string]bool // entities that begin on trial

	count counters
}

type counters struct {
	primary, backlog, failed, ambiguous, throttled, failovers, failbacks, replaced, badQueues atomic.Int64
}

// NewSender returns a sender. Without a secondary, or without queues, sends
// wait for the primary until their deadlines. Queues are the names of the
// backlog queues, which every sender and syphon must get in the same order; see
// [BacklogQueues].
func NewSender(primary, secondary Namespace, queues []string, options *Options) (*Sender, error) {
	complete, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Sender{options: complete, pings: primary, entities: make(map[string]*entity)}
	s.background, s.stop = context.WithCancel(context.Background())
	replaced := func() { s.count.replaced.Add(1) }
	s.primary = newLinks(primary, replaced)
	if secondary != nil && len(queues) > 0 {
		s.backlog = newBacklog(newLinks(secondary, replaced), queues, s.options.attemptTimeout, func(queue string, err error) {
			s.count.badQueues.Add(1)
			s.options.OnEvent(Event{At: time.Now(), Kind: QueueFailed, Queue: queue, Cause: err})
		})
	}
	return s, nil
}

// Receipt is where a message is stored.
type Receipt struct {
	MessageID any  // as sent, or a new one if the message had none
	Backlog   bool // in a backlog queue, and not in its entity yet
}

// Send stores a message in its entity or in the backlog. It tries until the
// context ends, so give the context a deadline. The message may be used again
// at once; its maps and body must not be changed before Send returned.
//
// A message with a schedule in the past is sent at once. The error has the type
// [*SendError], and is final unless its class is Unavailable, Throttled or Full.
func (s *Sender) Send(ctx context.Context, entity string, m *Message) (Receipt, error) {
	c, err := checked(entity, m, maxMessage, time.Now())
	if err != nil {
		return Receipt{}, &SendError{Entity: entity, Class: classOf(err), Primary: err}
	}
	r := Receipt{MessageID: c.Properties.MessageID}
	failure := &SendError{Entity: entity, MessageID: r.MessageID}
	e := s.entity(entity)
	defer s.leave(e)
	if r.Backlog, err = s.send(ctx, e, c, failure); err != nil {
		s.count.failed.Add(1)
		return Receipt{}, err
	}
	if r.Backlog {
		s.count.backlog.Add(1)
	} else {
		s.count.primary.Add(1)
	}
	return r, nil
}

// send notes each failed attempt in failure, and returns that as its error.
func (s *Sender) send(ctx context.Context, e *entity, m *Message, failure *SendError) (toBacklog bool, err error) {
	for pause := minPause; ; {
		a, err := e.admit(ctx)
		if err == nil && !a.backlog && s.mustFollow(ctx, e, m) {
			e.withdrawn(a)
			a = admission{backlog: true}
		}
		switch {
		case err != nil:
			return false, failure.gaveUp(ctx, err)
		case !a.backlog:
			err := s.attempt(ctx, e, a, m)
			if err == nil {
				return false, nil
			}
			if failure.Primary == nil || ctx.Err() == nil || final(err) { // a deadline is no cause
				failure.Primary, failure.Class = err, classOf(err)
			}
			if s.note(failure, err); final(err) {
				return false, failure
			}
		default:
			err := s.backlog.send(ctx, e, m, func(err error) { s.note(failure, err) })
			if err == nil {
				return true, nil
			}
			if failure.Secondary == nil || ctx.Err() == nil || refused(err) {
				failure.Secondary = err
			}
			if failure.Primary == nil {
				failure.Primary, failure.Class = e.status().LastErr, Unavailable
			}
			if refused(err) {
				return false, failure
			}
			// The secondary failed as well, so wait a little for either.
			select {
			case <-time.After(pause + rand.N(pause/4)):
			case <-s.background.Done():
			case <-ctx.Done():
			}
			pause = min(2*pause, maxPause)
		}
		if ctx.Err() != nil {
			return false, failure.gaveUp(ctx, context.Cause(ctx))
		}
	}
}

// attempt makes one attempt at the primary.
func (s *Sender) attempt(ctx context.Context, e *entity, a admission, m *Message) error {
	err := s.primary.of(e.name).do(ctx, a.timeout, func(ctx context.Context, c Connection) error {
		return c.Send(ctx, e.name, m)
	})
	if err != nil && s.background.Err() != nil {
		e.withdrawn(a) // Close cut it off
		return err
	}
	e.answered(a, err, err != nil && ctx.Err() != nil && classOf(err) == Unavailable)
	return err
}

// note counts an attempt that failed.
func (s *Sender) note(failure *SendError, err error) {
	if !unsent(err) {
		failure.Unclear = true
		s.count.ambiguous.Add(1)
	}
	if classOf(err) == Throttled {
		s.count.throttled.Add(1)
	}
}

// gaveUp completes the error of a send that ran out of time.
func (f *SendError) gaveUp(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		f.Context = context.Cause(ctx)
		return f
	}
	if t, ok := errors.AsType[*Error](err); ok {
		f.Primary, f.Class, f.RetryAfter = err, t.Class, t.After
	}
	return f
}

// entity returns the state of an entity of the primary, for one send.
func (s *Sender) entity(name string) *entity {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entities[name]
	if e == nil {
		e = &entity{name: name, options: s.options, failover: s.backlog != nil, moved: s.moved, closed: s.background.Done(), changed: make(chan struct{}), since: time.Now()}
		e.onTrial = s.backlog != nil && s.trials[name]
		delete(s.trials, name)
		s.entities[name] = e
	}
	e.sends++
	return e
}

// BeginOnTrial has these entities begin as after a failback: one send at a time
// goes to the primary, and a failed one fails over at once. It is for a process
// that starts while others have failed over, so that its sends do not wait for
// the whole interval. Entities to which messages were sent before stay as they
// are.
func (s *Sender) BeginOnTrial(entities ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trials = make(map[string]bool, len(entities))
	for _, name := range entities {
		s.trials[name] = true
	}
}

// leave ends a send. An entity that may not exist is forgotten, or the names
// that callers make up would fill the memory.
func (s *Sender) leave(e *entity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.sends--; e.sends == 0 && !e.known.Load() {
		delete(s.entities, e.name)
		s.primary.forget(e.name)
	}
}

// Close ends the pings and closes all connections. Sends that are under way
// fail with ErrClosed.
func (s *Sender) Close(ctx context.Context) error {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	defer context.AfterFunc(ctx, s.primary.giveUp)()
	s.running.Wait()
	err := s.primary.close(ctx)
	if s.backlog != nil {
		err = errors.Join(err, s.backlog.links.close(ctx))
	}
	return err
}
