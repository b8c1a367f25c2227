package servicebus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/dev/devbus"
	"kennel/relay"
)

// outage is what happens to a sender and a syphon while their primary namespace
// has faults.
type outage struct {
	outageFault
	interval  time.Duration // 0: fail over at the first failure
	lasts     time.Duration
	producers int           // 8 unless set
	every     time.Duration // each of them sends; 50 ms unless set
	sessions  int           // how many of them send in a session of their own
	roundTrip time.Duration // to both namespaces
	dedup     bool          // the entities detect duplicates

	// crashEvery is how many messages a syphon completes before it stops
	// between a send and its completion; 1,500 unless set.
	crashEvery int
}

const (
	healthyFor = 10 * time.Second // before the outage
	afterwards = 25 * time.Second // of sending

	// The last producer has short deadlines, and the one before sends to another
	// entity.
	longDeadline  = 2 * time.Minute
	shortDeadline = 3 * time.Second
	other         = "other" // an entity that has no faults of its own

	syphonPause = 20 * time.Second // after a pass that could not move all
)

// sent is what became of one call of Send.
type sent struct {
	id, entity  string
	began, took time.Duration // since the run began
	late        bool          // returned more than 100 ms after its deadline
	err         error
}

// outageRun is an outage in progress.
type outageRun struct {
	outage
	t                  *testing.T
	primary, secondary *devbus.Broker
	queues             []string
	began              time.Time

	mu     sync.Mutex
	sends  []sent
	events []relay.Event
	passes relay.Result // of all syphons

	crashes  int
	arrived  []string // ids, by entity in the order of arrival
	rejected int64    // by faults
}

// run runs the outage in virtual time.
func (o outage) run(t *testing.T) (found *findings) {
	o.producers, o.every = cmp.Or(o.producers, 8), cmp.Or(o.every, 50*time.Millisecond)
	o.crashEvery = cmp.Or(o.crashEvery, 1500)
	synctest.Test(t, func(t *testing.T) {
		r := &outageRun{outage: o, t: t, primary: devbus.New(nil), secondary: devbus.New(nil)}
		t.Cleanup(func() {
			r.primary.Heal()
			r.primary.Close()
			r.secondary.Close()
		})
		found = r.run()
	})
	found.check(t, o)
	t.Log(found)
	return found
}

func (r *outageRun) run() *findings {
	p, s := openRelay(r.t, r.dial(r.primary)), openRelay(r.t, r.dial(r.secondary))
	r.createEntities(orders, other)
	for i := range 10 {
		r.queues = append(r.queues, fmt.Sprintf("contoso/x-servicebus-transfer/%d", i))
		if err := s.Ensure(r.t.Context(), r.queues[i]); err != nil {
			r.t.Fatal(err)
		}
	}
	sender := newSender(r.t, p, s, r.queues, &relay.Options{Interval: &r.interval, OnEvent: r.event})

	r.began = time.Now()
	ctx, stop := context.WithCancel(r.t.Context())
	var syphons, producers sync.WaitGroup
	syphons.Go(func() { r.syphon(ctx, p, s) })
	for i := range r.producers {
		producers.Go(func() { r.produce(sender, i) })
	}
	time.Sleep(healthyFor + r.every/2) // between two rounds of sends
	r.fail()
	time.Sleep(r.lasts)
	r.heal()
	producers.Wait()
	r.drain()
	stop()
	syphons.Wait()
	if err := sender.Close(context.Background()); err != nil {
		r.t.Errorf("close: %v", err)
	}
	r.read(orders)
	r.read(other)
	return r.judge(sender.Stats())
}

func (r *outageRun) createEntities(names ...string) {
	s := &devbus.Settings{}
	if r.dedup {
		s.DuplicateWindow = 10 * time.Minute
	}
	for _, name := range names {
		if err := r.primary.CreateQueue(name, s); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *outageRun) dial(b *devbus.Broker) *Options {
	if r.roundTrip > 0 {
		return distant(r.t, b, r.roundTrip)
	}
	return inProcess(b)
}

func (r *outageRun) event(e relay.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *outageRun) fail() {
	r.rejected = -r.primary.Stats().Faults
	for _, f := range r.faults {
		if f.Kind == devbus.DeleteEntity {
			r.read(f.Entity) // its messages are deleted with it
		}
		r.primary.Fail(f)
	}
}

func (r *outageRun) heal() {
	r.rejected += r.primary.Stats().Faults
	r.primary.Heal()
	for _, f := range r.faults {
		if f.Kind == devbus.DeleteEntity {
			r.createEntities(f.Entity)
		}
	}
}

func (r *outageRun) produce(sender *relay.Sender, i int) {
	deadline, entity := longDeadline, orders
	switch i {
	case r.producers - 1:
		deadline = shortDeadline
	case r.producers - 2:
		entity = other
	}
	ends := r.began.Add(healthyFor + r.lasts + afterwards)
	next := r.began.Add(time.Duration(i) * time.Millisecond)
	for n := 0; next.Before(ends); n++ {
		time.Sleep(time.Until(next))
		m := text(fmt.Sprintf("%d-%06d", i, n))
		if i < r.sessions {
			session := fmt.Sprint("session-", i)
			m.Properties = &azservicebus.AMQPAnnotatedMessageProperties{GroupID: &session}
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(r.t.Context(), deadline)
		_, err := sender.Send(ctx, entity, m)
		cancel()
		took := time.Since(began)
		r.mu.Lock()
		r.sends = append(r.sends, sent{string(m.Body.Data[0]), entity, began.Sub(r.began), took, took > deadline+100*time.Millisecond, err})
		r.mu.Unlock()
		next = next.Add(r.every)
		if now := time.Now(); next.Before(now) {
			next = now.Add(time.Millisecond) // so that an entity that rejects everything is not called in a loop without time
		}
	}
}

// syphon runs one syphon after the other, because each crashes.
func (r *outageRun) syphon(ctx context.Context, p, s relay.Namespace) {
	for ctx.Err() == nil {
		life, crash := context.WithCancel(ctx)
		c := &crashing{Namespace: s, crash: crash}
		c.left.Store(int64(r.crashEvery))
		syphon := newSyphon(r.t, p, c, r.queues, &relay.Options{OnEvent: r.event})
		for life.Err() == nil {
			pass, _ := syphon.Pass(life) // its errors are those of the faults
			r.passes.Moved += pass.Moved
			r.passes.DeadLettered += pass.DeadLettered
			r.passes.Ambiguous += pass.Ambiguous
			r.passes.Unsettled += pass.Unsettled
			if pass.Held > 0 || pass.Moved == 0 {
				select {
				case <-time.After(syphonPause):
				case <-life.Done():
				}
			}
		}
		crash()
		syphon.Close(context.Background())
		r.crashes++
	}
}

// crashing is the secondary namespace of one process. Instead of completing one
// message too many, the process stops, and from then on settles nothing.
type crashing struct {
	relay.Namespace
	left  atomic.Int64 // messages to complete
	crash func()
}

func (c *crashing) Connect() (relay.Connection, error) {
	inner, err := c.Namespace.Connect()
	return crashingConnection{inner, c}, err
}

type crashingConnection struct {
	relay.Connection
	process *crashing
}

var errCrashed = errors.New("the process crashed")

func (c crashingConnection) Settle(ctx context.Context, d *relay.Delivery, s relay.Settlement) error {
	left := c.process.left.Load()
	if s.Action == relay.Complete {
		left = c.process.left.Add(-1)
	}
	if left < 0 {
		c.process.crash()
		return &relay.Error{Class: relay.Unavailable, Err: errCrashed}
	}
	return c.Connection.Settle(ctx, d, s)
}

// drain waits until the backlog is empty.
func (r *outageRun) drain() {
	for began := time.Now(); ; time.Sleep(time.Second) {
		left := 0
		for _, q := range r.queues {
			counts, err := r.secondary.Counts(q)
			if err != nil {
				r.t.Fatal(err)
			}
			left += counts.Ready + counts.Locked
		}
		if left == 0 {
			return
		}
		if time.Since(began) > 30*time.Minute {
			r.t.Fatalf("the backlog holds %d messages after 30 minutes", left)
		}
	}
}

// read takes what arrived at an entity.
func (r *outageRun) read(entity string) {
	c, err := openRelay(r.t, inProcess(r.primary)).connector.newClient(noRetry)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.close()
	defer c.cut() // at once, because it would take messages until it is closed
	in, err := c.NewReceiverForQueue(entity, &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	if err != nil {
		r.t.Fatal(err)
	}
	for {
		if counts, _ := r.primary.Counts(entity); counts.Ready == 0 {
			return
		}
		messages, err := in.ReceiveMessages(r.t.Context(), 2000, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, m := range messages {
			r.arrived = append(r.arrived, string(m.Body))
		}
	}
}
