package devbus

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kennel/internal/dev/devbus/amqp"
)

// What the functions that create, find and delete entities answer.
var (
	ErrExists   = errors.New("the entity exists already")
	ErrNotFound = errors.New("no such entity")
)

// Settings are what an entity is created with. Zero fields mean the service's
// default. Topics and subscriptions use those that make sense for them.
//
// The administration endpoint holds durations to the service's limits; these
// do not, so that a test in real time need not wait for them.
type Settings struct {
	LockDuration       time.Duration // default 1 minute
	MaxDeliveryCount   int32         // default 10
	TimeToLive         time.Duration // upper limit and default of the messages'; 0: none
	DeadLetterOnExpiry bool          // expired messages are dead-lettered, not dropped
	DuplicateWindow    time.Duration // how long message-ids are remembered; 0: not at all
	RequiresSession    bool
	AutoDeleteOnIdle   time.Duration // 0: never
	MaxBytes           int64         // what the entity may hold; default 1 GB
	Status             Status        // default Active
}

// Status says what an entity may be used for.
type Status string

const (
	Active          Status = "Active"
	Disabled        Status = "Disabled"
	SendDisabled    Status = "SendDisabled"
	ReceiveDisabled Status = "ReceiveDisabled"
)

func (s *Settings) fillIn() {
	s.LockDuration = cmp.Or(s.LockDuration, time.Minute)
	s.MaxDeliveryCount = cmp.Or(s.MaxDeliveryCount, 10)
	s.MaxBytes = cmp.Or(s.MaxBytes, 1<<30)
	s.Status = cmp.Or(s.Status, Active)
}

func (s *Settings) sends() bool    { return s.Status == Active || s.Status == ReceiveDisabled }
func (s *Settings) receives() bool { return s.Status == Active || s.Status == SendDisabled }

// entity is what queues, topics and subscriptions have in common.
type entity struct {
	b           *Broker
	path        string // as its creator spelled it; lookups ignore case
	name        string // the last part of it
	settings    Settings
	ineffective ineffective

	created, updated, accessed time.Time
	idle                       alarm
	links                      []*endpoint
	gone                       bool
}

func (b *Broker) newEntity(path, name string, s *Settings) entity {
	e := entity{b: b, path: path, name: name}
	if s != nil {
		e.settings = *s
	}
	e.settings.fillIn()
	e.created = time.Now()
	e.updated, e.accessed = e.created, e.created
	return e
}

// key is the form in which paths are compared.
func key(path string) string { return strings.ToLower(strings.Trim(path, "/")) }

const (
	suffixDeadLetter         = "/$DeadLetterQueue"
	suffixTransferDeadLetter = "/$Transfer/$DeadLetterQueue"
	suffixManagement         = "/$management"
	infixSubscriptions       = "/Subscriptions/"
)

// CreateQueue makes a queue, or answers ErrExists.
func (b *Broker) CreateQueue(name string, s *Settings) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.createQueue(name, s)
	return err
}

// CreateTopic makes a topic, or answers ErrExists.
func (b *Broker) CreateTopic(name string, s *Settings) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.createTopic(name, s)
	return err
}

// CreateSubscription makes a subscription that receives everything sent to
// its topic, or answers ErrExists, or ErrNotFound if there is no such topic.
func (b *Broker) CreateSubscription(topic, name string, s *Settings) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.createSubscription(topic, name, s)
	return err
}

// Delete removes the entity at a path, such as "orders" or
// "signals/Subscriptions/node1", with all it holds. Whoever is attached to it
// is detached with amqp:not-found.
func (b *Broker) Delete(path string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.remove(path)
}

func (b *Broker) createQueue(name string, s *Settings) (*queue, error) {
	if err := b.free(name); err != nil {
		return nil, err
	}
	q := b.newQueue(name, name, s)
	b.addQueue(q)
	return q, nil
}

func (b *Broker) createTopic(name string, s *Settings) (*topic, error) {
	if err := b.free(name); err != nil {
		return nil, err
	}
	t := &topic{entity: b.newEntity(name, name, s), scheduled: map[int64]*scheduledMessage{}}
	b.topics[key(name)] = t
	t.touch()
	return t, nil
}

func (b *Broker) createSubscription(topicName, name string, s *Settings) (*queue, error) {
	t := b.topics[key(topicName)]
	if t == nil {
		return nil, fmt.Errorf("topic %q: %w", topicName, ErrNotFound)
	}
	path := t.path + infixSubscriptions + name
	if b.queues[key(path)] != nil {
		return nil, fmt.Errorf("subscription %q: %w", path, ErrExists)
	}
	q := b.newQueue(path, name, s)
	q.topic = t
	t.subscriptions = append(t.subscriptions, q)
	b.addQueue(q)
	return q, nil
}

// free reports whether a queue or topic could have the name.
func (b *Broker) free(name string) error {
	if key(name) == "" {
		return errors.New("an entity needs a name")
	}
	if b.queues[key(name)] != nil || b.topics[key(name)] != nil {
		return fmt.Errorf("entity %q: %w", name, ErrExists)
	}
	return nil
}

// addQueue makes a queue known with its dead-letter queues, each a queue under
// a path of its own.
func (b *Broker) addQueue(q *queue) {
	q.deadLetters = b.newDeadLetterQueue(q, suffixDeadLetter)
	transfer := b.newDeadLetterQueue(q, suffixTransferDeadLetter)
	for _, q := range []*queue{q, q.deadLetters, transfer} {
		b.queues[key(q.path)] = q
	}
	q.touch()
}

func (b *Broker) remove(path string) error {
	if t := b.topics[key(path)]; t != nil {
		b.removeTopic(t)
		return nil
	}
	q := b.queues[key(path)]
	if q == nil || q.owner != nil {
		return fmt.Errorf("entity %q: %w", path, ErrNotFound)
	}
	b.removeQueue(q)
	return nil
}

func (b *Broker) removeQueue(q *queue) {
	if t := q.topic; t != nil {
		t.subscriptions = slices.DeleteFunc(t.subscriptions, func(s *queue) bool { return s == q })
	}
	for _, suffix := range []string{"", suffixDeadLetter, suffixTransferDeadLetter} {
		part := b.queues[key(q.path+suffix)]
		delete(b.queues, key(q.path+suffix))
		part.depart()
		part.clear()
	}
}

func (b *Broker) removeTopic(t *topic) {
	delete(b.topics, key(t.path))
	for _, q := range slices.Clone(t.subscriptions) {
		b.removeQueue(q)
	}
	t.depart()
	t.clear()
}

// depart ends every link to an entity that is being deleted, and forgets it.
func (e *entity) depart() {
	e.gone = true
	e.b.alarms.cancel(&e.idle)
	for _, l := range slices.Clone(e.links) {
		l.detach(amqp.Errorf(amqp.CondNotFound, "The messaging entity '%s' has been deleted.", e.path))
	}
}

// update changes an entity's settings, and detaches those who may no longer
// do what they do.
func (e *entity) update(s Settings) {
	s.fillIn()
	e.settings = s
	e.updated = time.Now()
	e.b.alarms.cancel(&e.idle) // which whoever updates sets anew, by a touch
	for _, l := range slices.Clone(e.links) {
		if l.out != nil && !s.receives() || l.in != nil && !s.sends() {
			l.detach(e.disabled())
		}
	}
}
