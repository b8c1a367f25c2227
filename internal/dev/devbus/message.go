package devbus

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// This file takes messages apart into sections and puts them together again.
// A section that the broker has no business in is kept as the bytes it came
// in, so that no type, order or body kind is lost on the way through.

const (
	sectionHeader      = 0x70
	sectionDelivery    = 0x71 // delivery-annotations
	sectionAnnotations = 0x72 // message-annotations
	sectionProperties  = 0x73
	sectionApplication = 0x74
	sectionData        = 0x75
	sectionSequence    = 0x76
	sectionValue       = 0x77
	sectionFooter      = 0x78

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

	id         any // the message-id: a string, uint64, uuid or []byte
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

// sections calls visit for each section of an encoded message: its code, its
// value, and the whole section.
func sections(b []byte, visit func(code uint64, value, whole []byte) error) error {
	for len(b) > 0 {
		code, value, err := descriptor(b)
		if err != nil {
			return err
		}
		rest, err := skip(value)
		if err != nil {
			return err
		}
		if code < sectionHeader || code > sectionFooter {
			return fmt.Errorf("no message section has code %#02x", code)
		}
		if err := visit(code, value[:len(value)-len(rest)], b[:len(b)-len(rest)]); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

// parseMessage takes one message apart. It keeps b.
func parseMessage(b []byte) (*content, error) {
	c := &content{priority: 4}
	err := sections(b, func(code uint64, value, whole []byte) (err error) {
		switch code {
		case sectionHeader:
			return c.readHeader(value)
		case sectionDelivery: // concerns only the hop it came over
		case sectionAnnotations:
			return c.readNotes(value)
		case sectionProperties:
			c.properties = whole
		case sectionApplication:
			c.app = whole
			return eachPair(value, nil) // so that no receiver chokes on it
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
	err := sections(b, func(code uint64, value, _ []byte) error {
		if code != sectionData {
			return nil // the envelope repeats what its first message says
		}
		message, err := binaryOf(value)
		if err != nil {
			return err
		}
		c, err := parseMessage(message)
		batch = append(batch, c)
		return err
	})
	return batch, err
}

// binaryOf is the content of an encoded binary.
func binaryOf(value []byte) ([]byte, error) {
	ctor, b, _, err := cut(value)
	if err != nil {
		return nil, err
	}
	if ctor != ctorBinary8 && ctor != ctorBinary32 {
		return nil, fmt.Errorf("expected a binary, found constructor %#02x", ctor)
	}
	return b, nil
}

func (c *content) readHeader(value []byte) error {
	f, _, err := readFields(value)
	if err != nil {
		return err
	}
	c.durable = f.boolean()
	if p := f.maybeUbyte(); p != nil {
		c.priority = *p
	}
	c.ttl, _ = f.duration()
	return f.err // first-acquirer and delivery-count are the broker's to say
}

func (c *content) readNotes(value []byte) error {
	return eachPair(value, func(key string, value []byte) error {
		if key == noteScheduled {
			if v, _, err := decode(value); err == nil {
				c.scheduled, _ = v.(time.Time)
			}
		}
		c.notes = append(c.notes, note{key, value})
		return nil
	})
}

// eachPair visits the pairs of an encoded map whose keys are texts; other keys
// are reserved by AMQP and belong to nobody. A nil visit only checks the map.
func eachPair(m []byte, visit func(key string, value []byte) error) error {
	ctor, b, _, err := cut(m)
	if err != nil || ctor == ctorNull {
		return err
	}
	if ctor != ctorMap8 && ctor != ctorMap32 {
		return fmt.Errorf("expected a map, found constructor %#02x", ctor)
	}
	count, b, err := elements(ctor, b)
	if err != nil {
		return err
	}
	if count%2 != 0 {
		return errors.New("a map has a key without a value")
	}
	f := fields{b: b, left: count}
	for f.left > 0 && f.err == nil {
		key, value := f.next(), f.next()
		if f.err != nil || visit == nil {
			continue
		}
		switch ctor, name, _, _ := cut(key); ctor {
		case ctorString8, ctorString32, ctorSymbol8, ctorSymbol32:
			if err := visit(string(name), value); err != nil {
				return err
			}
		}
	}
	return f.err
}

// readProperties finds the message-id and the session, and gives a message
// without an id one of its own, as the service does.
func (c *content) readProperties() error {
	var f fields
	if c.properties != nil {
		_, value, err := descriptor(c.properties)
		if err == nil {
			f, _, err = readFields(value)
		}
		if err != nil {
			return fmt.Errorf("properties: %w", err)
		}
	}
	all := f
	id := f.value()
	for range 9 { // user-id … creation-time
		f.next()
	}
	if group := f.next(); group[0] != ctorNull {
		v, _, err := decode(group)
		s, ok := v.(string)
		if err != nil || !ok {
			return errors.New("properties: the group-id is not a string")
		}
		c.session, c.hasSession = s, true
	}
	if f.err != nil {
		return fmt.Errorf("properties: %w", f.err)
	}
	switch id.(type) {
	case string, uint64, uuid, []byte:
	case nil:
		id = newUUID().String()
		w := open(appendDescriptor(nil, sectionProperties), ctorList32)
		w.value(id)
		for all.next(); all.left > 0; {
			w.encoded(all.next())
		}
		c.properties = w.close()
	default:
		return fmt.Errorf("properties: a message-id cannot be a %T", id)
	}
	c.id = id
	return nil
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
	w := open(appendDescriptor(nil, sectionApplication), ctorMap32)
	if c.app != nil {
		_, value, _ := descriptor(c.app) // parseMessage has seen it
		eachPair(value, func(key string, value []byte) error {
			if !replaced[key] {
				w.string(key)
				w.encoded(value)
			}
			return nil
		})
	}
	for i, p := range set {
		if !slices.ContainsFunc(set[i+1:], func(o property) bool { return o.name == p.name }) {
			w.string(p.name)
			w.value(p.value)
		}
	}
	changed := *c
	changed.app = w.close()
	return &changed
}

// render appends m as it goes to a client. The token is given where there is
// no delivery to carry it.
func (m *message) render(b []byte, token *uuid) []byte {
	c := m.content
	h := open(appendDescriptor(b, sectionHeader), ctorList32)
	h.boolean(c.durable)
	h.ubyte(c.priority)
	h.orNull(m.ttl > 0, func() { h.uint(uint32(min(m.ttl.Milliseconds(), math.MaxUint32))) })
	h.boolean(false)
	// Always said, zero too: some SDKs show "undefined" otherwise.
	h.uint(m.failures)
	b = h.close()

	if token != nil {
		d := open(appendDescriptor(b, sectionDelivery), ctorMap32)
		d.symbol(noteLockToken)
		d.value(*token)
		b = d.close()
	}

	// The exact types matter: the Go SDK panics over any other.
	n := open(appendDescriptor(b, sectionAnnotations), ctorMap32)
	n.symbol(noteSequence)
	n.long(m.sequence)
	n.symbol(noteEnqueued)
	n.time(m.enqueued)
	n.symbol(noteEnqueuedSequence)
	n.long(m.topicSequence)
	n.symbol(noteState)
	n.int(m.shownState())
	if m.state == stateLocked {
		n.symbol(noteLockedUntil)
		n.time(m.lockedUntil)
	}
	if m.deadLetterSource != "" {
		n.symbol(noteDeadLetterSource)
		n.string(m.deadLetterSource)
	}
	for _, note := range c.notes {
		if !m.overrules(note.key) {
			n.symbol(note.key)
			n.encoded(note.value)
		}
	}
	b = n.close()
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
func newUUID() (u uuid) {
	be.PutUint64(u[:8], rand.Uint64())
	be.PutUint64(u[8:], rand.Uint64())
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u
}

func (u uuid) String() string { return hex.EncodeToString(u[:]) }

// guid is u as a delivery tag: .NET writes the first three groups little-endian.
func (u uuid) guid() []byte {
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
