package devbus

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// Fault is an injected failure, from Fail until Heal.
//
// A fault in the answers to operations applies to every message sent, including
// scheduled messages, or to the operations in On. If several faults apply, the
// oldest takes effect.
type Fault struct {
	Kind   Kind
	Entity string // path of a queue, topic or subscription; "" means all; must be "" for some connections
	On     Op     // the operations that fail; 0 means OnSend
	Times  int    // how often it happens before it ends; 0 means always

	// Of Reject, Detach, DetachAfter, RefuseAttach: default
	// amqp:internal-error. Of Disconnect, CloseBefore, CloseAfter: the reason
	// in the Close; "" means that the connection ends without one.
	Condition   string
	Description string        // of the condition, or of Status
	Status      int           // of CBS and Admin: default 503
	Delay       time.Duration // of Slow: until the answer; of ClockSkew: how far the broker's clock is ahead; of Admin: Retry-After
}

// Kind is the kind of a fault.
type Kind int

const (
	// Connections. Entity must be "", except for Disconnect.

	RefuseDial     Kind = iota + 1 // new connections are refused; Disconnect ends existing ones
	BlackHole                      // new connections are accepted, but the broker never sends anything
	Freeze                         // existing connections stall, as if unplugged; Heal delivers the bytes sent in between
	DropHeartbeats                 // the broker sends no heartbeats, so that idle clients give up
	Disconnect                     // existing connections end, once: those with a link to the entity

	// Answers to operations.

	CloseBefore  // the connection ends instead of the operation
	CloseAfter   // the connection ends after the operation, before the answer
	Silent       // no operation, no answer
	SilentAfter  // the operation, no answer
	Slow         // the operation, and a late answer
	Reject       // no operation; the answer is Condition
	Full         // messages are rejected as if the entity were full
	Release      // the outcome is "released", which some SDKs report as success
	Modify       // the outcome is "modified", which some SDKs report as success
	Detach       // links end with Condition: immediately, and on each use
	DetachAfter  // the link ends with Condition after the operation, before the answer
	RefuseAttach // links are refused with Condition

	// Others.

	CBS          // put-token is answered with Status
	ExpireTokens // tokens for the entity expire, once: links are detached, and new ones need new tokens
	Admin        // requests to administer the entity are answered with Status
	DeleteEntity // the entity is deleted, once, although links are attached
	ClockSkew    // times shown to clients are ahead, and scheduled messages arrive early
)

// Op is a set of operations.
type Op int

const (
	OnSend    Op = 1 << iota // messages being sent or scheduled
	OnSettle                 // messages being completed, abandoned, deferred, dead-lettered
	OnRequest                // peeking, renewing and other requests to $management

	onAttach  // not for callers: RefuseAttach
	onReceive // not for callers: Detach, when credit is granted
)

// fault is an injected Fault.
type fault struct {
	Fault
	id int
}

// Fail injects a fault. It returns an id for Heal. It panics if the fault has no
// Kind, which is a bug in the test.
func (b *Broker) Fail(f Fault) (id int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.Kind == 0 {
		panic("devbus: a Fault needs a Kind")
	}
	if f.On == 0 {
		f.On = OnSend
	}
	b.lastFault++
	injected := &fault{f, b.lastFault}
	if !b.happensOnce(injected) {
		b.faults = append(b.faults, injected)
	}
	return injected.id
}

// happensOnce applies the immediate effect of a fault. It reports whether the
// fault has no other effect.
func (b *Broker) happensOnce(f *fault) bool {
	switch f.Kind {
	case DeleteEntity:
		b.remove(f.Entity) // a missing entity counts as deleted
	case Disconnect:
		for _, c := range b.conns {
			if f.Entity == "" || c.uses(f.Entity) {
				c.hangUp(f.reason())
			}
		}
	case ExpireTokens:
		for _, c := range b.conns {
			for _, path := range slices.Sorted(maps.Keys(c.claims)) {
				if f.concerns(strings.TrimSuffix(path, suffixManagement)) {
					c.claims[path].ring()
				}
			}
		}
	case Freeze:
		for _, c := range b.conns {
			c.freeze(f)
		}
		return false
	case Detach:
		for _, l := range b.attached(f.Entity) {
			l.detach(f.error())
		}
		return false
	default:
		return false
	}
	b.stats.Faults++
	return true
}

// Heal ends the faults with these ids, or all faults.
func (b *Broker) Heal(ids ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ends := func(f *fault) bool { return len(ids) == 0 || slices.Contains(ids, f.id) }
	b.faults = slices.DeleteFunc(b.faults, ends)
	for _, c := range b.conns {
		if c.frozenBy != nil && ends(c.frozenBy) {
			c.frozenBy = nil
			c.w.thaw()
		}
	}
}

// freeze stalls the connection until the fault is healed.
func (c *conn) freeze(f *fault) {
	if c.frozenBy == nil {
		c.frozenBy = f
		c.w.freeze()
	}
}

// attached lists the links to an entity, or to all.
func (b *Broker) attached(path string) []*endpoint {
	var links []*endpoint
	for _, k := range slices.Sorted(maps.Keys(b.queues)) {
		if path == "" || k == key(path) {
			links = append(links, b.queues[k].links...)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(b.topics)) {
		if path == "" || k == key(path) {
			links = append(links, b.topics[k].links...)
		}
	}
	return links
}

func (f *Fault) error() *amqp.Error {
	return &amqp.Error{
		Condition:   cmp.Or(f.Condition, amqp.CondInternal),
		Description: cmp.Or(f.Description, "injected by a fault"),
	}
}

// reason returns the error of the Close that ends a connection, or nil if it
// ends without a Close.
func (f *Fault) reason() *amqp.Error {
	if f.Condition == "" {
		return nil
	}
	return f.error()
}

func (f *Fault) concerns(path string) bool {
	return f.Entity == "" || key(f.Entity) == key(path)
}

// pick returns the oldest fault of the kind that concerns the path, or nil. It
// counts the fault.
func (b *Broker) pick(kind Kind, path string) *fault {
	for _, f := range b.faults {
		if f.Kind == kind && f.concerns(path) {
			b.happened(f)
			return f
		}
	}
	return nil
}

// happened counts a fault, and ends it when it has happened Times times.
func (b *Broker) happened(f *fault) {
	b.stats.Faults++
	if f.Times == 0 {
		return
	}
	if f.Times--; f.Times == 0 {
		b.faults = slices.DeleteFunc(b.faults, func(o *fault) bool { return o == f })
	}
}

// skew returns how far the broker's clock is ahead.
func (b *Broker) skew() time.Duration {
	var skew time.Duration
	for _, f := range b.faults {
		if f.Kind == ClockSkew {
			skew += f.Delay
		}
	}
	return skew
}

// stamp returns t on the broker's clock, which ClockSkew sets ahead. Only times
// that clients see are stamped; the broker itself uses real time.
func (b *Broker) stamp(t time.Time) time.Time { return t.Add(b.skew()).UTC() }

// due returns when a message must be enqueued. It depends only on the time that
// the sender set, so that messages for the same time stay in order.
func (b *Broker) due(c *content) time.Time {
	return b.monotonic(c.scheduled).Add(-b.skew())
}

// monotonic returns a wall-clock time with a monotonic reading, so that all
// alarms have one clock.
func (b *Broker) monotonic(t time.Time) time.Time { return b.created.Add(t.Sub(b.created)) }

// verdict is the effect of the faults on an operation. The zero verdict
// performs the operation and answers it.
type verdict struct {
	skip    bool        // do not perform the operation
	refuse  *amqp.Error // answer with that error
	release bool        // answer that the message was released
	modify  bool        // … but that it was modified, if it was sent
	silent  bool        // do not answer
	hangUp  bool        // end the connection instead of answering
	reason  *amqp.Error // … with a Close that has this error, unless it is nil
	detach  *amqp.Error // end the link instead of answering
	delay   time.Duration
}

// judge returns the effect of the faults on an operation on an entity.
func (b *Broker) judge(op Op, path string) verdict {
	for _, f := range b.faults {
		if !f.concerns(path) {
			continue
		}
		if v, fits := f.verdict(op); fits {
			b.happened(f)
			return v
		}
	}
	return verdict{}
}

func (f *Fault) verdict(op Op) (v verdict, fits bool) {
	switch f.Kind {
	case RefuseAttach:
		return verdict{refuse: f.error()}, op == onAttach
	case Full:
		return verdict{skip: true, refuse: amqp.Errorf(amqp.CondResourceLimit, "The maximum entity size has been reached or exceeded.")}, op == OnSend
	case Detach:
		return verdict{skip: true, detach: f.error()}, f.On&op != 0 || op == onReceive
	case DetachAfter:
		v = verdict{detach: f.error()}
	case CloseBefore:
		v = verdict{skip: true, hangUp: true, reason: f.reason()}
	case CloseAfter:
		v = verdict{hangUp: true, reason: f.reason()}
	case Silent:
		v = verdict{skip: true, silent: true}
	case SilentAfter:
		v = verdict{silent: true}
	case Slow:
		v = verdict{delay: f.Delay}
	case Reject:
		v = verdict{skip: true, refuse: f.error()}
	case Release:
		v = verdict{skip: true, release: true}
	case Modify:
		v = verdict{skip: true, release: true, modify: true}
	default:
		return verdict{}, false
	}
	return v, f.On&op != 0
}
