package devbus

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Errors of the functions that create, find and delete entities.
var (
	ErrExists   = errors.New("entity already exists")
	ErrNotFound = errors.New("entity not found")
)

// Settings are the settings of a queue, topic or subscription. A zero field
// means the service's default. Topics and subscriptions ignore the fields that
// do not apply to them.
//
// The administration endpoint enforces the service's limits of durations.
// Settings have no limits, so that a test in real time can use short durations.
type Settings struct {
	LockDuration       time.Duration // default 1 minute
	MaxDeliveryCount   int32         // default 10
	TimeToLive         time.Duration // upper limit and default for messages; 0: none
	DeadLetterOnExpiry bool          // expired messages are dead-lettered, not dropped
	DuplicateWindow    time.Duration // how long message-ids are remembered; 0: not at all
	RequiresSession    bool
	AutoDeleteOnIdle   time.Duration // 0: never
	MaxBytes           int64         // of all messages in the entity; default 1 GB
	MaxMessageBytes    int64         // of one message; default 256 KB, in a premium namespace 1 MB
	Status             Status        // default Active

	partitioned bool // shown to administrators; it only multiplies MaxBytes
}

// Status selects the operations that an entity allows.
type Status string

const (
	Active          Status = "Active"
	Disabled        Status = "Disabled"
	SendDisabled    Status = "SendDisabled"
	ReceiveDisabled Status = "ReceiveDisabled"
)

func (b *Broker) fillIn(s *Settings) {
	s.LockDuration = cmp.Or(s.LockDuration, time.Minute)
	s.MaxDeliveryCount = cmp.Or(s.MaxDeliveryCount, 10)
	s.MaxBytes = cmp.Or(s.MaxBytes, 1<<30)
	s.MaxMessageBytes = cmp.Or(s.MaxMessageBytes, b.maxMessage)
	s.Status = cmp.Or(s.Status, Active)
}

func (s *Settings) sends() bool    { return s.Status == Active || s.Status == ReceiveDisabled }
func (s *Settings) receives() bool { return s.Status == Active || s.Status == SendDisabled }

// entity holds the fields that queues, topics and subscriptions share.
type entity struct {
	b           *Broker
	path        string // as its creator spelled it; lookups ignore case
	name        string // the last part of it
	settings    Settings
	ineffective ineffective

	created, updated time.Time
	accessed         time.Time // by a client; zero: never
	lastUse          time.Time // by a client or an administrator
	idle             alarm
	links            []*endpoint
	deleted          bool
}

func (b *Broker) newEntity(path, name string, s *Settings) entity {
	e := entity{b: b, path: path, name: name}
	if s != nil {
		e.settings = *s
	}
	b.fillIn(&e.settings)
	e.created = time.Now()
	e.updated = e.created
	return e
}

// key returns the form of a path that lookups use. Clients may also give the
// path as a URL, such as amqps://host/orders.
func key(path string) string {
	if _, rest, isURL := strings.Cut(path, "://"); isURL {
		_, path, _ = strings.Cut(rest, "/")
	}
	return strings.ToLower(strings.Trim(path, "/"))
}

const (
	suffixDeadLetter         = "/$DeadLetterQueue"
	suffixTransferDeadLetter = "/$Transfer/$DeadLetterQueue"
	suffixManagement         = "/$management"
	infixSubscriptions       = "/Subscriptions/"
)

// find returns the queue, topic, subscription or dead-letter queue at a path, or
// nil.
func (b *Broker) find(path string) *entity {
	if t := b.topics[key(path)]; t != nil {
		return &t.entity
	}
	if q := b.queues[key(path)]; q != nil {
		return &q.entity
	}
	return nil
}

// CreateQueue creates a queue, or returns ErrExists.
func (b *Broker) CreateQueue(name string, s *Settings) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.createQueue(name, s)
	return err
}

// CreateTopic creates a topic, or returns ErrExists.
func (b *Broker) CreateTopic(name string, s *Settings) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.createTopic(name, s)
	return err
}

// CreateSubscription creates a subscription that receives all messages of its
// topic. It returns ErrExists if the subscription exists, and ErrNotFound if
// the topic does not.
func (b *Broker) CreateSubscription(topic, name string, s *Settings) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.createSubscription(topic, name, s)
	return err
}

// Delete removes the entity at a path, such as "orders" or
// "signals/Subscriptions/node1", with all its messages. Its links are detached
// with amqp:not-found.
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
	t := &topic{entity: b.newEntity(name, name, s)}
	b.topics[key(name)] = t
	t.use()
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

// free returns an error unless a new queue or topic can have the name.
func (b *Broker) free(name string) error {
	if key(name) == "" {
		return errors.New("entity name is empty")
	}
	if b.find(name) != nil {
		return fmt.Errorf("entity %q: %w", name, ErrExists)
	}
	return nil
}

// addQueue registers a queue and its dead-letter queues, each under its own
// path.
func (b *Broker) addQueue(q *queue) {
	q.deadLetters = b.newDeadLetterQueue(q, suffixDeadLetter)
	transfer := b.newDeadLetterQueue(q, suffixTransferDeadLetter)
	for _, q := range []*queue{q, q.deadLetters, transfer} {
		b.queues[key(q.path)] = q
	}
	q.use()
}

// newDeadLetterQueue creates one of q's dead-letter queues. It has no sessions
// and no dead-letter queue. Its messages count towards the size of q.
func (b *Broker) newDeadLetterQueue(q *queue, suffix string) *queue {
	d := b.newQueue(q.path+suffix, q.name+suffix, &Settings{LockDuration: q.settings.LockDuration})
	d.owner = q
	return d
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

// depart ends every link to an entity that is being deleted, and cancels its
// idle alarm.
func (e *entity) depart() {
	e.deleted = true
	e.b.alarms.cancel(&e.idle)
	for _, l := range slices.Clone(e.links) {
		l.detach(e.b.unknown(e.path))
	}
}

// update replaces an entity's settings, and detaches the links that the new
// status does not allow. The caller must call use.
func (e *entity) update(s Settings) {
	e.b.fillIn(&s)
	e.settings = s
	e.updated = time.Now()
	e.b.alarms.cancel(&e.idle) // use sets it again
	for _, l := range slices.Clone(e.links) {
		if l.out != nil && !s.receives() || l.in != nil && !s.sends() {
			l.detach(e.disabled())
		}
	}
}
