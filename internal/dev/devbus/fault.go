package devbus

import (
	"cmp"
	"maps"
	"slices"
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
	Entity string // path of a queue, topic or subscription; "" means all; must be "" for connections
	On     Op     // the operations that fail; 0 means OnSend
	Times  int    // how often it happens before it ends; 0 means always

	Condition   string        // of Reject, Detach, RefuseAttach: default amqp:internal-error
	Description string        // of the same Kinds
	Status      int           // of CBS: default 503
	Delay       time.Duration // of Slow: until the answer; of ClockSkew: how far the broker's clock is ahead
}

// Kind is the kind of a fault.
type Kind int

const (
	// Connections.

	RefuseDial     Kind = iota + 1 // new connections are refused; Broker.DropConnections ends existing ones
	BlackHole                      // new connections are accepted, but the broker never sends anything
	Freeze                         // existing connections stall, as if unplugged; Heal delivers the bytes sent in between
	DropHeartbeats                 // the broker sends no heartbeats, so that idle clients give up

	// Answers to operations.

	CloseBefore  // the connection ends instead of the operation
	CloseAfter   // the connection ends after the operation, before the answer
	Silent       // no operation, no answer
	SilentAfter  // the operation, no answer
	Slow         // the operation, and a late answer
	Reject       // no operation; the answer is Condition
	Full         // messages are rejected as if the entity were full
	Release      // the outcome is "released", which some SDKs report as success
	Detach       // links end with Condition: immediately, and on each use
	RefuseAttach // links are refused with Condition

	// Others.

	CBS          // put-token is answered with Status
	DeleteEntity // the entity is deleted immediately, although links are attached
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

// Fail injects a fault. It panics if the fault has no Kind, which is a bug in
// the test.
func (b *Broker) Fail(f Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch f.Kind {
	case 0:
		panic("devbus: a Fault needs a Kind")
	case DeleteEntity:
		b.remove(f.Entity) // a missing entity counts as deleted
		return
	case Freeze:
		for _, c := range b.conns {
			c.w.freeze()
		}
		return
	case Detach:
		for _, l := range b.attached(f.Entity) {
			l.detach(f.error())
		}
	}
	if f.On == 0 {
		f.On = OnSend
	}
	b.faults = append(b.faults, &f)
}

// Heal ends all faults.
func (b *Broker) Heal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = nil
	for _, c := range b.conns {
		c.w.thaw()
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

func (f *Fault) concerns(path string) bool {
	return f.Entity == "" || key(f.Entity) == key(path)
}

// pick returns the oldest fault of the kind that concerns the path, or nil. It
// counts the fault.
func (b *Broker) pick(kind Kind, path string) *Fault {
	for _, f := range b.faults {
		if f.Kind == kind && f.concerns(path) {
			b.happened(f)
			return f
		}
	}
	return nil
}

// happened counts a fault, and ends it when it has happened Times times.
func (b *Broker) happened(f *Fault) {
	b.stats.Faults++
	if f.Times == 0 {
		return
	}
	if f.Times--; f.Times == 0 {
		b.faults = slices.DeleteFunc(b.faults, func(o *Fault) bool { return o == f })
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
	return b.created.Add(c.scheduled.Sub(b.created)).Add(-b.skew())
}

// verdict is the effect of the faults on an operation. The zero verdict
// performs the operation and answers it.
type verdict struct {
	skip    bool        // do not perform the operation
	refuse  *amqp.Error // answer with that error
	release bool        // answer that the message was released
	silent  bool        // do not answer
	hangUp  bool        // end the connection instead of answering
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
	case CloseBefore:
		v = verdict{skip: true, hangUp: true}
	case CloseAfter:
		v = verdict{hangUp: true}
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
	default:
		return verdict{}, false
	}
	return v, f.On&op != 0
}
