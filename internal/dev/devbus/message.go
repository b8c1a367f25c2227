package devbus

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// This file splits messages into sections and joins them again. A section that
// the broker does not use keeps its bytes, so that types, order and the kind of
// the body are preserved.

// formatBatch marks a transfer whose data sections are messages.
const formatBatch = 0x80013700

// Annotations that the broker reads or writes.
const (
	annotationSequence         = "x-opt-sequence-number"
	annotationEnqueued         = "x-opt-enqueued-time"
	annotationLockedUntil      = "x-opt-locked-until"
	annotationEnqueuedSequence = "x-opt-enqueue-sequence-number"
	annotationState            = "x-opt-message-state"
	annotationLockToken        = "x-opt-lock-token"
	annotationScheduled        = "x-opt-scheduled-enqueue-time"
	annotationPartition        = "x-opt-partition-key"
)

// content is a message as its sender wrote it. It is immutable: subscriptions
// share it, and a change of properties creates a new one.
type content struct {
	durable     bool
	priority    uint8
	ttl         time.Duration // 0: that of the entity
	delivery    []annotation  // delivery annotations
	annotations []annotation
	properties  []byte // the section; it always has a message-id
	app         []byte // the application-properties section; nil if there is none
	body        []byte // the body's sections and the footer

	id         any // the message-id: a string, uint64, amqp.UUID or []byte
	session    string
	hasSession bool
	partition  string    // the partition key
	scheduled  time.Time // zero: immediately
	largest    int       // bytes of the largest application property
}

// annotation is an annotation of a message or of a delivery. Its value is
// encoded.
type annotation struct {
	key   string
	value []byte
}

func (c *content) size() int64 {
	size := len(c.properties) + len(c.app) + len(c.body)
	for _, n := range c.annotations {
		size += len(n.key) + len(n.value)
	}
	for _, n := range c.delivery {
		size += len(n.key) + len(n.value)
	}
	return int64(size)
}

// parseMessage splits one message into sections. The content refers to b.
func parseMessage(b []byte) (*content, error) {
	c := &content{priority: 4}
	err := amqp.Sections(b, func(code uint64, value, whole []byte) (err error) {
		switch code {
		case amqp.SectionHeader:
			return c.readHeader(value)
		case amqp.SectionDelivery:
			return amqp.Pairs(value, func(key string, value []byte) error {
				c.delivery = append(c.delivery, annotation{key, value})
				return nil
			})
		case amqp.SectionAnnotations:
			return c.readAnnotations(value)
		case amqp.SectionProperties:
			c.properties = whole
		case amqp.SectionApplication:
			c.app = whole
			return amqp.Pairs(value, func(key string, value []byte) error {
				c.largest = max(c.largest, len(key)+len(value))
				return nil
			})
		default:
			if c.body == nil {
				c.body = whole[:len(whole):len(whole)] // nearly always the only one
			} else {
				c.body = append(c.body, whole...)
			}
		}
		return nil
	})
	if err == nil {
		err = c.readProperties()
	}
	if err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	return c, nil
}

// parseTransfer returns the messages of a transfer: one, or those of a batch.
func parseTransfer(format uint32, b []byte) ([]*content, error) {
	if format != formatBatch {
		c, err := parseMessage(b)
		return []*content{c}, err
	}
	var batch []*content
	err := amqp.Sections(b, func(code uint64, value, _ []byte) error {
		if code != amqp.SectionData {
			return nil // the envelope repeats sections of its first message
		}
		message, err := amqp.DecodeBinary(value)
		if err != nil {
			return err
		}
		c, err := parseMessage(message)
		batch = append(batch, c)
		return err
	})
	return batch, err
}

func (c *content) readHeader(value []byte) error {
	f, _, err := amqp.ReadFields(value)
	if err != nil {
		return err
	}
	c.durable = f.Bool()
	if p := f.Ubyte(); p != nil {
		c.priority = *p
	}
	c.ttl = f.Duration()
	return f.Err() // the broker sets first-acquirer and delivery-count
}

func (c *content) readAnnotations(value []byte) error {
	return amqp.Pairs(value, func(key string, value []byte) error {
		if key == annotationScheduled || key == annotationPartition {
			v, _, _ := amqp.Decode(value) // nil if it is invalid
			if key == annotationScheduled {
				c.scheduled, _ = v.(time.Time)
			} else {
				c.partition, _ = v.(string)
			}
		}
		c.annotations = append(c.annotations, annotation{key, value})
		return nil
	})
}

// readProperties reads the message-id and the session. As the service does, it
// adds a random message-id if there is none.
func (c *content) readProperties() error {
	var f amqp.Fields
	if c.properties != nil {
		_, value, err := amqp.DecodeDescriptor(c.properties)
		if err == nil {
			f, _, err = amqp.ReadFields(value)
		}
		if err != nil {
			return fmt.Errorf("properties: %w", err)
		}
	}
	all := f
	id := f.Value()
	f.Skip(9) // user-id … creation-time
	group := f.Value()
	if f.Err() != nil {
		return fmt.Errorf("properties: %w", f.Err())
	}
	if c.session, c.hasSession = group.(string); group != nil && !c.hasSession {
		return errors.New("properties: the group-id is not a string")
	}
	switch id.(type) {
	case string, uint64, amqp.UUID, []byte:
	case nil:
		token := newUUID()
		id = hex.EncodeToString(token[:])
		w := amqp.OpenList(nil, amqp.SectionProperties)
		w.Value(id)
		for all.Skip(1); all.Len() > 0; {
			w.Encoded(all.Next())
		}
		c.properties = w.Close()
	default:
		return fmt.Errorf("properties: a message-id cannot be a %T", id)
	}
	c.id = id
	return nil
}

// property is an application property.
type property struct {
	name  string
	value any
}

// properties returns the properties in a map. It skips keys that are not
// strings or symbols.
func properties(m amqp.Map) []property {
	var out []property
	for key, value := range m.All() {
		if name := amqp.Text(key); name != "" {
			out = append(out, property{name, value})
		}
	}
	return out
}

// with returns c with application properties set.
func (c *content) with(set []property) *content {
	if len(set) == 0 {
		return c
	}
	replaced := map[string]bool{}
	for _, p := range set {
		replaced[p.name] = true
	}
	w := amqp.OpenMap(nil, amqp.SectionApplication)
	if c.app != nil {
		_, value, _ := amqp.DecodeDescriptor(c.app) // parseMessage has checked it
		amqp.Pairs(value, func(key string, value []byte) error {
			if !replaced[key] {
				w.String(key)
				w.Encoded(value)
			}
			return nil
		})
	}
	for i, p := range set {
		if !slices.ContainsFunc(set[i+1:], func(o property) bool { return o.name == p.name }) {
			w.String(p.name)
			w.Value(p.value)
		}
	}
	changed := *c
	changed.app = w.Close()
	return &changed
}

// render appends m in the encoding for clients. withToken includes the token of
// its lock.
func (m *message) render(b []byte, withToken bool) []byte {
	c := m.content
	h := amqp.OpenList(b, amqp.SectionHeader)
	h.Bool(c.durable)
	h.Ubyte(c.priority)
	h.OrNull(m.ttl > 0, func() { h.Uint(uint32(min(m.ttl.Milliseconds(), math.MaxUint32))) })
	h.Bool(false)
	// Write zero, too: without it, some SDKs show "undefined".
	h.Uint(m.failures)
	b = h.Close()

	// As the service does, pass on the sender's delivery annotations, which in
	// AMQP are for the next hop only.
	if withToken || len(c.delivery) > 0 {
		d := amqp.OpenMap(b, amqp.SectionDelivery)
		if withToken {
			d.Symbol(annotationLockToken)
			d.UUID(m.token)
		}
		for _, a := range c.delivery {
			if !withToken || a.key != annotationLockToken {
				d.Symbol(a.key)
				d.Encoded(a.value)
			}
		}
		b = d.Close()
	}

	// The exact types matter: the Go SDK panics on any other.
	n := amqp.OpenMap(b, amqp.SectionAnnotations)
	n.Symbol(annotationSequence)
	n.Long(m.sequence)
	n.Symbol(annotationEnqueued)
	n.Time(m.enqueued)
	if m.topicSequence != 0 {
		n.Symbol(annotationEnqueuedSequence)
		n.Long(m.topicSequence)
	}
	if s := m.shownState(); s != 0 {
		n.Symbol(annotationState)
		n.Int(s)
	}
	if m.state == stateLocked {
		n.Symbol(annotationLockedUntil)
		n.Time(m.lockedUntil)
	}
	for _, a := range c.annotations {
		if !m.overrides(a.key) {
			n.Symbol(a.key)
			n.Encoded(a.value)
		}
	}
	b = n.Close()
	return append(append(append(b, c.properties...), c.app...), c.body...)
}

// overrides reports whether the broker's annotation replaces the sender's.
// Other annotations are kept, including stale ones of another broker.
func (m *message) overrides(key string) bool {
	switch key {
	case annotationSequence, annotationEnqueued, annotationEnqueuedSequence, annotationState:
		return true
	case annotationLockedUntil:
		return m.state == stateLocked
	}
	return false
}

// newUUID returns a random UUID for tokens and ids. It is unique, but not
// secret.
func newUUID() (u amqp.UUID) {
	binary.BigEndian.PutUint64(u[:8], rand.Uint64())
	binary.BigEndian.PutUint64(u[8:], rand.Uint64())
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u
}

// deliveryTag returns a lock token as a delivery tag. The first three groups
// are little-endian, as .NET writes them.
func deliveryTag(u amqp.UUID) []byte {
	return []byte{u[3], u[2], u[1], u[0], u[5], u[4], u[7], u[6], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]}
}

// shownState returns the state in the encoding for clients.
func (m *message) shownState() int32 {
	switch {
	case m.state == stateScheduled:
		return 2
	case m.deferred: // also while it is locked
		return 1
	}
	return 0
}
