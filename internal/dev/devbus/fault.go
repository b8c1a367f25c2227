package devbus

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// Fault is something that is to go wrong, from Fail until Heal.
//
// Faults that answer an operation wrongly are asked about every message sent
// (scheduled ones, too), or about the operations that On names. The oldest
// fault that fits has its way.
type Fault struct {
	Kind   Kind
	Entity string // which queue, topic or subscription; "" is every one; for connections of no meaning
	On     Op     // the operations concerned; 0 is OnSend
	Times  int    // how often it happens before it heals by itself; 0 is always

	Condition   string        // of Reject, Detach, RefuseAttach: default amqp:internal-error
	Description string        // the text that goes with it
	Status      int           // of CBS: default 503
	Delay       time.Duration // of Slow: how late; of ClockSkew: how far the broker's clock is ahead
}

// Kind is what goes wrong.
type Kind int

const (
	// Connections.

	RefuseDial     Kind = iota + 1 // new ones are refused; Broker.DropConnections ends those there are
	BlackHole                      // new ones are accepted, and nothing is ever said on them
	Freeze                         // those there are now fall silent, as if unplugged; Heal lets what was sent meanwhile arrive
	DropHeartbeats                 // no signs of life are sent, so that idle clients give up

	// Answers to operations.

	CloseBefore  // the connection ends instead of the operation
	CloseAfter   // it ends after the operation, before the answer
	Silent       // no operation, no answer
	SilentAfter  // the operation, but no answer
	Slow         // the operation, and the answer late
	Reject       // no operation; the answer is Condition
	Full         // messages are rejected as if the entity were full
	Release      // messages are answered "released", which some SDKs take for success
	Detach       // links end with Condition: at once, and whenever they are used
	RefuseAttach // links are refused with Condition

	// The rest.

	CBS          // put-token is answered with Status
	DeleteEntity // the entity is deleted now, under whoever is attached
	ClockSkew    // times shown to clients are wrong, and scheduled messages come early
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

// Fail has a fault happen from now on. A fault without a Kind is a mistake in
// the test, and panics.
func (b *Broker) Fail(f Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch f.Kind {
	case 0:
		panic("devbus: a Fault needs a Kind")
	case DeleteEntity:
		b.remove(f.Entity) // one that is gone already is as good as deleted
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

// pick returns a fault of the kind, if one concerns the path now.
func (b *Broker) pick(kind Kind, path string) *Fault {
	for _, f := range b.faults {
		if f.Kind == kind && f.concerns(path) {
			b.happened(f)
			return f
		}
	}
	return nil
}

// happened counts, and heals a fault that has happened often enough.
func (b *Broker) happened(f *Fault) {
	b.stats.Faults++
	if f.Times == 0 {
		return
	}
	if f.Times--; f.Times == 0 {
		b.faults = slices.DeleteFunc(b.faults, func(o *Fault) bool { return o == f })
	}
}

// skew is how far the broker's clock is ahead.
func (b *Broker) skew() time.Duration {
	var skew time.Duration
	for _, f := range b.faults {
		if f.Kind == ClockSkew {
			skew += f.Delay
		}
	}
	return skew
}

// verdict is what faults make of an operation. The zero verdict is to do it
// and to answer.
type verdict struct {
	skip    bool        // do not do it
	refuse  *amqp.Error // answer with that error
	release bool        // answer that the message was released
	silent  bool        // do not answer
	hangUp  bool        // end the connection instead of answering
	detach  *amqp.Error // end the link instead of answering
	delay   time.Duration
}

// judge asks the faults about an operation on an entity.
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
