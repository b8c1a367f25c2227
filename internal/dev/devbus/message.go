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

// This file takes messages apart into sections and puts them together again.
// A section that the broker has no business in is kept as the bytes it came
// in, so that no type, order or body kind is lost on the way through.

const (
	// formatBatch marks a transfer whose data sections are messages.
	formatBatch = 0x80013700

	// maxMessage is the limit of the standard tier.
	maxMessage = 256 << 10
)

// Annotations the broker writes, and those it reads.
const (
	noteSequence         = "x-opt-sequence-number"
	noteEnqueued         = "x-opt-enqueued-time"
	noteLockedUntil      = "x-opt-locked-until"
	noteEnqueuedSequence = "x-opt-enqueue-sequence-number"
	noteState            = "x-opt-message-state"
	noteDeadLetterSource = "x-opt-deadletter-source"
	noteLockToken        = "x-opt-lock-token"
	noteScheduled        = "x-opt-scheduled-enqueue-time"
)

// content is a message as its sender wrote it. It never changes: subscriptions
// share it, and a change of properties makes a new one.
type content struct {
	durable    bool
	priority   uint8
	ttl        time.Duration // 0: the entity's
	notes      []note
	properties []byte // the section, with a message-id in any case
	app        []byte // the application-properties section; nil if there is none
	body       []byte // the body's sections and the footer

	id         any // the message-id: a string, uint64, amqp.UUID or []byte
	session    string
	hasSession bool
	scheduled  time.Time // zero: at once
}

// note is a message annotation, its value still encoded.
type note struct {
	key   string
	value []byte
}

func (c *content) size() int64 {
	size := len(c.properties) + len(c.app) + len(c.body)
	for _, n := range c.notes {
		size += len(n.key) + len(n.value)
	}
	return int64(size)
}

// parseMessage takes one message apart. It keeps b.
func parseMessage(b []byte) (*content, error) {
	c := &content{priority: 4}
	err := amqp.Sections(b, func(code uint64, value, whole []byte) (err error) {
		switch code {
		case amqp.SectionHeader:
			return c.readHeader(value)
		case amqp.SectionDelivery: // concerns only the hop it came over
		case amqp.SectionAnnotations:
			return c.readNotes(value)
		case amqp.SectionProperties:
			c.properties = whole
		case amqp.SectionApplication:
			c.app = whole
			return amqp.Pairs(value, nil) // so that no receiver chokes on it
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
			return nil // the envelope repeats what its first message says
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
	return f.Err() // first-acquirer and delivery-count are the broker's to say
}

func (c *content) readNotes(value []byte) error {
	return amqp.Pairs(value, func(key string, value []byte) error {
		if key == noteScheduled {
			if v, _, err := amqp.Decode(value); err == nil {
				c.scheduled, _ = v.(time.Time)
			}
		}
		c.notes = append(c.notes, note{key, value})
		return nil
	})
}

// readProperties finds the message-id and the session. A message without an id
// is given one, as the service does.
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

// properties returns those of a map, without keys that are not texts.
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

// render appends m as it goes to a client. The token is given where there is
// no delivery to carry it.
func (m *message) render(b []byte, token *amqp.UUID) []byte {
	c := m.content
	h := amqp.OpenList(b, amqp.SectionHeader)
	h.Bool(c.durable)
	h.Ubyte(c.priority)
	h.OrNull(m.ttl > 0, func() { h.Uint(uint32(min(m.ttl.Milliseconds(), math.MaxUint32))) })
	h.Bool(false)
	// Always said, zero too: some SDKs show "undefined" otherwise.
	h.Uint(m.failures)
	b = h.Close()

	if token != nil {
		d := amqp.OpenMap(b, amqp.SectionDelivery)
		d.Symbol(noteLockToken)
		d.Value(*token)
		b = d.Close()
	}

	// The exact types matter: the Go SDK panics over any other.
	n := amqp.OpenMap(b, amqp.SectionAnnotations)
	n.Symbol(noteSequence)
	n.Long(m.sequence)
	n.Symbol(noteEnqueued)
	n.Time(m.enqueued)
	n.Symbol(noteEnqueuedSequence)
	n.Long(m.topicSequence)
	n.Symbol(noteState)
	n.Int(m.shownState())
	if m.state == stateLocked {
		n.Symbol(noteLockedUntil)
		n.Time(m.lockedUntil)
	}
	if m.deadLetterSource != "" {
		n.Symbol(noteDeadLetterSource)
		n.String(m.deadLetterSource)
	}
	for _, note := range c.notes {
		if !m.overrules(note.key) {
			n.Symbol(note.key)
			n.Encoded(note.value)
		}
	}
	b = n.Close()
	return append(append(append(b, c.properties...), c.app...), c.body...)
}

// overrules reports whether the broker's own annotation takes the place of the
// sender's. Any other travels on, stale ones of another broker too.
func (m *message) overrules(key string) bool {
	switch key {
	case noteSequence, noteEnqueued, noteEnqueuedSequence, noteState:
		return true
	case noteLockedUntil:
		return m.state == stateLocked
	case noteDeadLetterSource:
		return m.deadLetterSource != ""
	}
	return false
}

// newUUID makes tokens and ids: unique, not secret.
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

// shownState is the state as clients know it.
func (m *message) shownState() int32 {
	switch {
	case m.state == stateScheduled:
		return 2
	case m.state == stateDeferred:
		return 1
	}
	return 0
}
