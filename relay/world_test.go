package relay_test

import (
	"sync"
	"time"

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

const (
	lockTime   = time.Minute
	busLatency = 5 * time.Millisecond
)

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
	received int
	changed  chan struct{} // closed and replaced when a receiver may find more
}

// wake wakes the receivers that wait. The bus is locked.
func (b *bus) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

type store struct {
	messages []*stored        // perhaps with some that are gone
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
	gone     bool // completed or dead-lettered
}

// handle is that of a delivery.
type handle struct {
	queue string
	m     *stored
	token int
}

func newBus(entities ...string) *bus {
	b := &bus{latency: busLatency, entities: make(map[string]*store), attempts: make(map[string][]time.Time), changed: make(chan struct{})}
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

// onlyAt is a fault of one queue or topic.
func onlyAt(bad string, f fault) func(string, string) fault {
	return func(_, entity string) fault {
		if entity == bad {
			return f
		}
		return none
	}
}

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
	for _, m := range b.entities[queue].messages {
		if !m.gone {
			active++
		}
	}
	return active, len(b.entities[queue].dead)
}

func (b *bus) Connect() (relay.Connection, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open++
	b.opened++
	return &conn{bus: b, dead: make(map[string]time.Time), closed: make(chan struct{})}, nil
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

// remove deletes entities.
func (b *bus) remove(entities ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range entities {
		delete(b.entities, name)
	}
}

// restore creates the entities that were removed and ends all faults.
func (b *bus) restore(entities ...string) {
	b.set(nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range entities {
		if b.entities[name] == nil {
			b.entities[name] = &store{seen: make(map[any]bool)}
		}
	}
}

// discard deletes the messages of a backlog queue for an entity.
func (b *bus) discard(queue, entity string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.entities[queue].messages {
		if m.m.ApplicationProperties["x-ms-path"] == entity {
			m.gone = true
		}
	}
}

// receives returns how many requests to receive were made.
func (b *bus) receives() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.received
}
