package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"kennel/devstore/internal/rest"
)

// A record begins with recordVersion and its kind. Numbers are varints; texts
// begin with their length.
const recordVersion = 1

const (
	recordProperties = 'p' // as package properties writes it
	recordQueue      = 'q' // a queue, but not its messages
	recordNoQueue    = 'd'
	recordMessage    = 'm' // a message with its text
	recordMoved      = 'v' // messages without their text
	recordNoMessage  = 'n'
	recordCleared    = 'c'
	recordReset      = 'r'
	recordLast       = 'l' // the last time that a message or receipt has
)

type encoder []byte

func encode(kind byte, texts ...string) encoder {
	e := encoder{recordVersion, kind}
	for _, s := range texts {
		e.text(s)
	}
	return e
}

func (e *encoder) number(n int64) { *e = binary.AppendVarint(*e, n) }

func (e *encoder) text(s string) {
	*e = binary.AppendUvarint(*e, uint64(len(s)))
	*e = append(*e, s...)
}

func (e *encoder) queue(q *queue) {
	e.number(int64(len(q.metadata)))
	for _, name := range slices.Sorted(maps.Keys(q.metadata)) {
		e.text(name)
		e.text(q.metadata[name])
	}
	e.number(int64(len(q.policies)))
	for _, p := range q.policies {
		e.text(p.ID)
		e.text(p.Start)
		e.text(p.Expiry)
		e.text(p.Permission)
	}
}

func (e *encoder) message(m *message) {
	*e = append(*e, m.id[:]...)
	e.number(int64(m.sequence))
	e.number(int64(m.inserted))
	e.number(int64(m.expires))
	e.moved(m)
	e.text(m.text)
}

// moved adds what a receive changes.
func (e *encoder) moved(m *message) {
	e.number(int64(m.visible))
	e.number(int64(m.receipt))
	e.number(m.count)
}

var errDamaged = errors.New("the record is damaged")

// A decoder reads a record. After an error it reads only zeros.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) take(n uint64) []byte {
	if d.err != nil || n > uint64(len(d.rest)) {
		d.err = errDamaged
		return nil
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) number() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.err = errDamaged
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) text() string {
	length, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.err = errDamaged
		return ""
	}
	d.rest = d.rest[n:]
	return string(d.take(length))
}

func (d *decoder) id() (id [16]byte) {
	copy(id[:], d.take(16))
	return id
}

func (d *decoder) queue(q *queue) {
	q.metadata = make(map[string]string)
	for n := d.number(); n > 0 && d.err == nil; n-- {
		name := d.text()
		q.metadata[name] = d.text()
	}
	q.policies = nil
	for n := d.number(); n > 0 && d.err == nil; n-- {
		q.policies = append(q.policies, rest.Policy{ID: d.text(), Start: d.text(), Expiry: d.text(), Permission: d.text()})
	}
}

func (d *decoder) moved(m *message) {
	m.visible, m.receipt, m.count = ticks(d.number()), ticks(d.number()), d.number()
}

func (d *decoder) message() *message {
	m := &message{id: d.id(), sequence: uint64(d.number()), inserted: ticks(d.number()), expires: ticks(d.number())}
	d.moved(m)
	m.text = d.text()
	return m
}

// Apply implements [rest.Service].
func (s *Service) Apply(record []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.apply(record); err != nil {
		return fmt.Errorf("queue service: read log: %w", err)
	}
	return nil
}

func (s *Service) apply(record []byte) error {
	if len(record) < 2 || record[0] != recordVersion {
		return errors.New("the record has an unknown version")
	}
	kind, d := record[1], &decoder{rest: record[2:]}
	switch kind {
	case recordProperties:
		return s.properties.Apply(d.rest)
	case recordReset:
		s.forget()
		return nil
	case recordLast:
		s.seen(ticks(d.number()))
		return d.err
	}
	account, name := d.text(), d.text()
	if d.err != nil {
		return d.err
	}
	switch kind {
	case recordQueue:
		q, exists := s.account(account).queues[name]
		if !exists {
			q = newQueue()
			s.account(account).put(name, q)
		}
		d.queue(q)
	case recordNoQueue:
		s.account(account).remove(name)
	default:
		q := s.account(account).queues[name]
		if q == nil {
			return fmt.Errorf("the record belongs to queue %.80q, which does not exist", name)
		}
		return s.applyTo(q, kind, d)
	}
	return d.err
}

// applyTo changes the messages of a queue.
func (s *Service) applyTo(q *queue, kind byte, d *decoder) error {
	switch kind {
	case recordMessage:
		m := d.message()
		if d.err != nil {
			return d.err
		}
		if old := q.byID[m.id]; old != nil {
			q.remove(old)
		}
		m.place = place(s.seed, m.sequence)
		s.sequence = max(s.sequence, m.sequence)
		s.seen(m.receipt)
		q.add(m)
	case recordMoved:
		for len(d.rest) > 0 && d.err == nil {
			id := d.id()
			var moved message
			d.moved(&moved)
			m := q.byID[id]
			if d.err != nil || m == nil {
				return errDamaged
			}
			m.receipt, m.count = moved.receipt, moved.count
			q.hide(m, moved.visible)
			s.seen(m.receipt)
		}
	case recordNoMessage:
		m := q.byID[d.id()]
		if m == nil {
			return errDamaged
		}
		q.remove(m)
	case recordCleared:
		q.clear()
	default:
		return fmt.Errorf("the record is of unknown kind %q", kind)
	}
	return d.err
}

// Snapshot implements [rest.Service].
func (s *Service) Snapshot(emit func(record []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := encode(recordLast)
	last.number(int64(s.last))
	if err := emit(last); err != nil {
		return err
	}
	err := s.properties.Snapshot(func(record []byte) error {
		return emit(append(encode(recordProperties), record...))
	})
	for _, account := range slices.Sorted(maps.Keys(s.accounts)) {
		for _, name := range s.accounts[account].names {
			if err == nil {
				err = s.snapshot(account, name, emit)
			}
		}
	}
	return err
}

func (s *Service) snapshot(account, name string, emit func(record []byte) error) error {
	q := s.accounts[account].queues[name]
	q.advance(s.now)
	e := encode(recordQueue, account, name)
	e.queue(q)
	if err := emit(e); err != nil {
		return err
	}
	for _, m := range q.byID {
		e := encode(recordMessage, account, name)
		e.message(m)
		if err := emit(e); err != nil {
			return err
		}
	}
	return nil
}
