package parts

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"kennel/internal/apptest"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/observe"
	"kennel/relay"
)

// memoryBus is a namespace in memory, without the order of sessions.
type memoryBus struct {
	mu       sync.Mutex
	fail     func(ctx context.Context, op, entity string) error // nil: nothing fails; guarded by mu
	stored   map[string][]*relay.Delivery                       // by entity; guarded by mu
	connects int                                                // guarded by mu
	sequence int64                                              // guarded by mu
	dead     []relay.Settlement                                 // guarded by mu
}

func newMemoryBus() *memoryBus { return &memoryBus{stored: make(map[string][]*relay.Delivery)} }

// fails sets what happens from now on.
func (b *memoryBus) fails(f func(ctx context.Context, op, entity string) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = f
}

var errTest = errors.New("the namespace refuses it")

// with returns a fault that always has the class.
func with(class relay.Class) func(context.Context, string, string) error {
	return func(context.Context, string, string) error {
		return &relay.Error{Class: class, Unsent: true, Err: errTest}
	}
}

// silent is a namespace to which no connection is made.
func silent(ctx context.Context, _, _ string) error {
	<-ctx.Done()
	return &relay.Error{Class: relay.Unavailable, Unsent: true, Err: ctx.Err()}
}

// messages returns what an entity holds.
func (b *memoryBus) messages(entity string) []*relay.Delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stored[entity]
}

func (b *memoryBus) Connect() (relay.Connection, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.connects++
	return memoryConnection{b}, nil
}

// Ensure implements [relay.Queues]: a queue needs no creation.
func (b *memoryBus) Ensure(context.Context, string) error { return nil }

// Depth implements [relay.Queues].
func (b *memoryBus) Depth(_ context.Context, queue string) (int64, error) {
	return int64(len(b.messages(queue))), nil
}

type memoryConnection struct{ *memoryBus }

func (b *memoryBus) faulty(ctx context.Context, op, entity string) error {
	b.mu.Lock()
	fail := b.fail
	b.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(ctx, op, entity)
}

func (c memoryConnection) Send(ctx context.Context, entity string, m *relay.Message) error {
	if err := c.faulty(ctx, "send", entity); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sequence++
	c.stored[entity] = append(c.stored[entity], &relay.Delivery{Message: m, Sequence: c.sequence, Enqueued: time.Now()})
	return nil
}

func (c memoryConnection) Ping(ctx context.Context, entity string) error {
	return c.faulty(ctx, "ping", entity)
}

func (c memoryConnection) Peek(ctx context.Context, queue string, from int64, n int) ([]*relay.Delivery, error) {
	if err := c.faulty(ctx, "peek", queue); err != nil {
		return nil, err
	}
	var page []*relay.Delivery
	for _, d := range c.messages(queue) {
		if d.Sequence >= from && len(page) < n {
			page = append(page, d)
		}
	}
	return page, nil
}

func (c memoryConnection) Receive(ctx context.Context, queue string, n int) ([]*relay.Delivery, error) {
	if err := c.faulty(ctx, "receive", queue); err != nil {
		return nil, err
	}
	if page := c.lock(queue, n); len(page) > 0 {
		return page, nil
	}
	<-ctx.Done()
	return nil, nil
}

// lock locks messages for a minute and returns copies of them.
func (b *memoryBus) lock(queue string, n int) (page []*relay.Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.stored[queue] {
		if len(page) < n && time.Now().After(d.LockedUntil) {
			d.LockedUntil, d.Handle = time.Now().Add(time.Minute), queue
			locked := *d
			page = append(page, &locked)
		}
	}
	return page
}

func (c memoryConnection) Settle(ctx context.Context, d *relay.Delivery, s relay.Settlement) error {
	queue := d.Handle.(string)
	if err := c.faulty(ctx, "settle", queue); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var left []*relay.Delivery
	for _, other := range c.stored[queue] {
		switch {
		case other.Sequence != d.Sequence:
			left = append(left, other)
		case s.Action == relay.Abandon:
			other.LockedUntil = time.Time{}
			left = append(left, other)
		}
	}
	c.stored[queue] = left
	if s.Action == relay.DeadLetter {
		c.dead = append(c.dead, s)
	}
	return nil
}

func (c memoryConnection) Renew(ctx context.Context, d *relay.Delivery) error {
	d.LockedUntil = time.Now().Add(time.Minute)
	return c.faulty(ctx, "renew", d.Handle.(string))
}

func (c memoryConnection) Close(context.Context) error { return nil }

// relayWorld is the relay of a process between two namespaces in memory.
type relayWorld struct {
	*relayPart
	primary, secondary *memoryBus
	rows               *memory.Table
	host               *customhandler.App
	log                *apptest.Buffer
}

// newRelayWorld wires a process; without a secondary it has no backlog.
func newRelayWorld(t *testing.T, secondary bool) *relayWorld {
	t.Helper()
	w := &relayWorld{primary: newMemoryBus(), secondary: newMemoryBus(), rows: memory.NewTable(nil), log: &apptest.Buffer{}}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.relayPart = newMemoryRelay(w.primary, w.secondary, secondary, log)
	w.Members = observe.NewMembers(w.rows, instances.Functions, time.Now(), log)
	w.Members.Watch(w.relayPart)
	w.host = newRelayHost(t, w.Routes())
	w.Functions(w.host)
	t.Cleanup(func() {
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// newRelayHost returns an app that serves routes.
func newRelayHost(t *testing.T, routes []edge.Route) *customhandler.App {
	t.Helper()
	host, err := customhandler.New(&customhandler.Options{Log: slog.New(slog.DiscardHandler), MaxBody: edge.MaxBody})
	if err != nil {
		t.Fatal(err)
	}
	edge.ServeRoutes(host, routes)
	return host
}

// newMemoryRelay returns the relay between two namespaces.
func newMemoryRelay(primary relay.Namespace, secondary *memoryBus, withSecondary bool, log *slog.Logger) *relayPart {
	f := &relayPart{log: log}
	f.Relay = f
	options := &relay.Options{OnEvent: f.happened}
	var err, err2 error
	if withSecondary {
		f.admin, f.queues = secondary, relay.BacklogQueues("kennel", 2)
		f.sender, err = relay.NewSender(primary, secondary, f.queues, options)
		f.syphon, err2 = relay.NewSyphon(primary, secondary, f.queues, options)
	} else {
		f.sender, err = relay.NewSender(primary, nil, nil, options)
	}
	if err := errors.Join(err, err2); err != nil {
		panic(err)
	}
	return f
}

// lines returns how often the log has a message.
func (w *relayWorld) lines(message string) int {
	return bytes.Count([]byte(w.log.String()), []byte(`msg="`+message+`"`))
}
