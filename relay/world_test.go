package relay_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/relay"
)

// fault is what a namespace does to a request.
type fault int

const (
	none      fault = iota
	refuse          // no connection
	hang            // no answer, and the connection stays dead for a minute
	drop            // the connection is lost, nothing is stored
	storeDrop       // stored, but the connection is lost
	storeHang       // stored, but never answered
	internal        // answered with a fault of the namespace
	busy            // throttled
	denied          // no permission
	full            // of the quota
	bad             // the message is at fault
)

func (f fault) String() string {
	return [...]string{"none", "refuse", "hang", "drop", "storeDrop", "storeHang", "internal", "busy", "denied", "full", "bad"}[f]
}

const lockTime = time.Minute

// bus is a namespace in memory that is as strict as Service Bus: locks end,
// deliveries are counted, abandoned messages come again in order.
type bus struct {
	latency time.Duration
	answer  time.Duration // of a peek, after it was made
	dedup   bool

	mu       sync.Mutex
	fault    func(op, entity string) fault // nil: none
	entities map[string]*store
	attempts map[string][]time.Time // sends by entity
	open     int                    // connections
	opened   int
	changed  chan struct{} // closed and replaced when a receiver may find more
}

// wake wakes the receivers that wait. The bus is locked.
func (b *bus) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

type store struct {
	messages []*stored
	all      []*relay.Message // in the order in which they were stored
	dead     []*stored
	reasons  []string
	seen     map[any]bool
	last     int64
}

type stored struct {
	m        *relay.Message
	sequence int64
	enqueued time.Time
	locked   time.Time
	token    int // of the current lock
	count    int
}

func newBus(entities ...string) *bus {
	b := &bus{latency: 5 * time.Millisecond, entities: make(map[string]*store), attempts: make(map[string][]time.Time), changed: make(chan struct{})}
	for _, name := range entities {
		b.entities[name] = &store{seen: make(map[any]bool)}
	}
	return b
}

// set changes what happens from now on.
func (b *bus) set(f func(op, entity string) fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = f
	b.wake()
}

// slow changes how long an answer takes from now on.
func (b *bus) slow(latency time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latency = latency
}

// sends returns the attempts to send to an entity.
func (b *bus) sends(entity string) []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.attempts[entity]
}

func always(f fault) func(string, string) fault { return func(string, string) fault { return f } }

// got returns the messages that were ever stored in an entity.
func (b *bus) got(entity string) []*relay.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.entities[entity].all
}

// left returns how many messages a queue and its dead letters hold.
func (b *bus) left(queue string) (active, dead int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.entities[queue].messages), len(b.entities[queue].dead)
}

func (b *bus) Connect() (relay.Connection, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open++
	b.opened++
	return &conn{bus: b, closed: make(chan struct{})}, nil
}

// process is a process that is killed at one of its requests. Nil lives on.
type process struct {
	mu     sync.Mutex
	left   int  // requests until it is killed
	before bool // the last one has no effect
	killed chan struct{}
}

// view is a namespace as a process sees it.
type view struct {
	*bus
	process *process
}

func (v view) Connect() (relay.Connection, error) {
	c, err := v.bus.Connect()
	c.(*conn).process = v.process
	return c, err
}

// begin reports whether a request has no effect.
func (p *process) begin() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left--
	if p.left == 0 {
		close(p.killed)
	}
	return p.left < 0 || p.left == 0 && p.before
}

// end reports whether the process does not see the answer.
func (p *process) end() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left <= 0
}

type conn struct {
	bus     *bus
	process *process
	once    sync.Once
	closed  chan struct{}

	mu   sync.Mutex
	dead time.Time // until then, nothing is answered
}

func (c *conn) Close(ctx context.Context) error {
	c.once.Do(func() {
		close(c.closed)
		c.bus.mu.Lock()
		c.bus.open--
		c.bus.mu.Unlock()
	})
	return nil
}

func fails(class relay.Class, unsent bool, text string) error {
	return &relay.Error{Class: class, Unsent: unsent, Err: errors.New(text)}
}

// request runs do unless a fault prevents it.
func (c *conn) request(ctx context.Context, op, entity string, do func(*store) error) error {
	b := c.bus
	if op != "wait" && c.process.begin() {
		return fails(relay.Unavailable, false, "the process was killed")
	}
	b.mu.Lock()
	f := none
	if b.fault != nil {
		f = b.fault(op, entity)
	}
	latency := b.latency
	b.mu.Unlock()
	c.mu.Lock()
	dead := c.dead
	if f == hang || f == storeHang {
		c.dead = time.Now().Add(time.Minute)
	}
	c.mu.Unlock()
	if time.Now().Before(dead) {
		f = hang
	}
	if f != hang && f != refuse {
		select {
		case <-time.After(latency):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	run := func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		s := b.entities[entity]
		if s == nil {
			return fails(relay.NotFound, false, "amqp:not-found")
		}
		err := do(s)
		if c.process.end() {
			return fails(relay.Unavailable, false, "the process was killed")
		}
		return err
	}
	switch f {
	case refuse:
		return fails(relay.Unavailable, true, "connection refused")
	case drop:
		return fails(relay.Unavailable, false, "connection lost")
	case internal:
		return fails(relay.Unavailable, true, "amqp:internal-error")
	case busy:
		return &relay.Error{Class: relay.Throttled, Err: errors.New("server busy")}
	case denied:
		return fails(relay.Denied, false, "unauthorized")
	case full:
		return fails(relay.Full, false, "quota")
	case bad:
		return fails(relay.Invalid, false, "amqp:decode-error")
	case storeDrop:
		return errors.Join(fails(relay.Unavailable, false, "connection lost"), run())
	case storeHang:
		run()
	case none:
		return run()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return fails(relay.Unavailable, false, "connection closed")
	}
}

func (c *conn) Send(ctx context.Context, entity string, m *relay.Message) error {
	c.bus.mu.Lock()
	c.bus.attempts[entity] = append(c.bus.attempts[entity], time.Now())
	c.bus.mu.Unlock()
	return c.request(ctx, "send", entity, func(s *store) error {
		if id := m.Properties.MessageID; c.bus.dedup && s.seen[id] {
			return nil
		} else if c.bus.dedup {
			s.seen[id] = true
		}
		c.bus.wake()
		s.last++
		s.all = append(s.all, m)
		s.messages = append(s.messages, &stored{m: delivered(m, s.last), sequence: s.last, enqueued: time.Now()})
		return nil
	})
}

// delivered returns a message with what Service Bus adds to it.
func delivered(m *relay.Message, sequence int64) *relay.Message {
	c := *m
	c.MessageAnnotations = maps.Clone(m.MessageAnnotations)
	if c.MessageAnnotations == nil {
		c.MessageAnnotations = make(map[any]any)
	}
	maps.Copy(c.MessageAnnotations, map[any]any{"x-opt-sequence-number": sequence, "x-opt-enqueued-time": time.Now(), "x-opt-locked-until": time.Now(), "x-opt-message-state": int32(0)})
	header := azservicebus.AMQPAnnotatedMessageHeader{Priority: 4}
	if m.Header != nil {
		header = *m.Header
	}
	header.DeliveryCount = 3
	c.Header = &header
	c.DeliveryAnnotations = map[any]any{"x-opt-lock-token": "token"}
	c.DeliveryTag = []byte("tag")
	return &c
}

func (c *conn) Ping(ctx context.Context, entity string) error {
	return c.request(ctx, "ping", entity, func(*store) error { return nil })
}

func (c *conn) Peek(ctx context.Context, queue string, from int64, n int) (found []*relay.Delivery, err error) {
	err = c.request(ctx, "peek", queue, func(s *store) error {
		for _, m := range s.messages {
			if m.sequence >= from && len(found) < n {
				if m.m.ApplicationProperties["poison"] != nil {
					return fails(relay.Unreadable, false, "the SDK panics")
				}
				found = append(found, &relay.Delivery{Message: m.m, Sequence: m.sequence, Enqueued: m.enqueued})
			}
		}
		return nil
	})
	time.Sleep(c.bus.answer)
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (c *conn) Receive(ctx context.Context, queue string, n int) (got []*relay.Delivery, err error) {
	for op := "receive"; ; op = "wait" { // waiting is no request
		var changed chan struct{}
		unlocked := time.Now().Add(time.Hour)
		err = c.request(ctx, op, queue, func(s *store) error {
			changed = c.bus.changed
			for _, m := range s.messages {
				if time.Now().Before(m.locked) && m.locked.Before(unlocked) {
					unlocked = m.locked
				}
				if time.Now().Before(m.locked) || len(got) == n {
					continue
				}
				if m.m.ApplicationProperties["poison"] != nil {
					err = fails(relay.Unreadable, false, "the SDK panics")
				}
				m.locked, m.token, m.count = time.Now().Add(lockTime), m.token+1, m.count+1
				got = append(got, &relay.Delivery{Message: m.m, Sequence: m.sequence, Enqueued: m.enqueued, LockedUntil: m.locked, Handle: m.token})
			}
			if err != nil {
				got = nil
			}
			return err
		})
		if ctx.Err() != nil && len(got) == 0 {
			return nil, nil
		}
		if err != nil || len(got) > 0 {
			return got, err
		}
		select {
		case <-changed:
		case <-time.After(time.Until(unlocked)):
		case <-ctx.Done():
		}
	}
}

// holder returns the message of a delivery while its lock is valid.
func (s *store) holder(d *relay.Delivery) (int, error) {
	for i, m := range s.messages {
		if m.sequence == d.Sequence && m.token == d.Handle && time.Now().Before(m.locked) {
			return i, nil
		}
	}
	return 0, fails(relay.LockLost, false, "message-lock-lost")
}

func (c *conn) Settle(ctx context.Context, d *relay.Delivery, how relay.Settlement) error {
	return c.request(ctx, "settle", queueOf(c.bus, d), func(s *store) error {
		i, err := s.holder(d)
		if err != nil {
			return err
		}
		m := s.messages[i]
		if how.Action == relay.Abandon {
			m.locked = time.Time{}
			c.bus.wake()
			return nil
		}
		s.messages = append(s.messages[:i:i], s.messages[i+1:]...)
		if how.Action == relay.DeadLetter {
			s.dead = append(s.dead, m)
			s.reasons = append(s.reasons, how.Reason+": "+how.Description)
		}
		return nil
	})
}

func (c *conn) Renew(ctx context.Context, d *relay.Delivery) error {
	return c.request(ctx, "renew", queueOf(c.bus, d), func(s *store) error {
		i, err := s.holder(d)
		if err == nil {
			s.messages[i].locked = time.Now().Add(lockTime)
			d.LockedUntil = s.messages[i].locked
		}
		return err
	})
}

// queueOf finds the queue of a delivery by its message, which is not copied.
func queueOf(b *bus, d *relay.Delivery) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, s := range b.entities {
		for _, m := range s.messages {
			if m.m == d.Message {
				return name
			}
		}
	}
	return ""
}
