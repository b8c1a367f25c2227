package servicebus

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/azure/requests"
	"kennel/internal/cost"
	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
	"kennel/relay"
)

const (
	backlogQueues = 3
	outageLasts   = 10 * time.Minute
)

// TestRelayCost compares the model of the relay's costs with the operations that
// are counted: of a Functions app whose timer moves the backlog each minute, and
// of a worker, both with an outage. How often messages are received in vain and
// sampled is measured in the same run.
func TestRelayCost(t *testing.T) {
	storetest.OnlyInProve(t)
	const hours = 24
	worst := 0.0
	for _, hosted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := openPair(t)
			ctx, stop := context.WithTimeoutCause(t.Context(), time.Duration(hours)*time.Hour, errOver)
			defer stop()
			var did cost.Relay
			var running sync.WaitGroup
			running.Go(func() { p.moveAll(ctx, t, hosted) })
			p.sendAll(ctx, t, &did)
			running.Wait()
			counted := p.counter.Operations()[requests.Bus]
			did.Held, did.Sampled = float64(counted[requests.Deliver])-did.Backlog, p.sampled
			if did.Backlog == 0 || did.Held <= 0 {
				t.Errorf("%+v: no outage", did)
			}
			predicted := did.Lines()
			for _, l := range cost.RelayIdle(backlogQueues, hosted) {
				l.Count *= float64(hours)
				predicted = append(predicted, l)
			}
			// A pass that leaves messages may end without a receive that returns
			// nothing.
			for i, l := range predicted {
				if n := float64(counted[requests.EmptyReceive]); l.Operation == requests.EmptyReceive {
					predicted[i].Count = min(l.Count, max(n, l.Count-backlogQueues*outageLasts.Minutes()))
				}
			}
			worst = max(worst, checkCost(t, hosted, counted, predicted))
		})
	}
	t.Logf("figure: predicted operations of the relay, off those counted | %.2f %% | ≤ 1 %%", 100*worst)
}

var errOver = errors.New("the day is over")

// countedPair is a sender and a syphon between two buses, whose operations are counted.
type countedPair struct {
	counter requests.Counter
	primary *devbus.Broker
	sender  *relay.Sender
	syphon  *relay.Syphon
	admin   relay.Queues // of the secondary
	sampled float64      // peeks of samples that found messages
}

func openPair(t *testing.T) *countedPair {
	t.Helper()
	p := &countedPair{}
	open := func() (*devbus.Broker, *Relay) {
		b := devbus.New(nil)
		t.Cleanup(func() {
			b.Heal()
			b.Close()
		})
		o := inProcess(b)
		o.Requests = &p.counter
		return b, openRelay(t, o)
	}
	var primary, secondary *Relay
	p.primary, primary = open()
	_, secondary = open()
	if err := p.primary.CreateQueue(orders, nil); err != nil {
		t.Fatal(err)
	}
	names, err := relay.EnsureQueues(t.Context(), secondary, relay.BacklogQueues("contoso", backlogQueues))
	if err != nil {
		t.Fatal(err)
	}
	p.admin = secondary
	p.sender = newSender(t, primary, secondary, names, nil)
	p.syphon = newSyphon(t, primary, late{secondary}, names, nil)
	t.Cleanup(func() {
		if err := errors.Join(p.sender.Close(context.Background()), p.syphon.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return p
}

// late is a namespace whose receives return a little late, so that none ends in
// the same instant as its link.
type late struct{ relay.Namespace }

func (l late) Connect() (relay.Connection, error) {
	c, err := l.Namespace.Connect()
	return lateConnection{c}, err
}

type lateConnection struct{ relay.Connection }

func (c lateConnection) Receive(ctx context.Context, queue string, n int) ([]*relay.Delivery, error) {
	defer time.Sleep(time.Millisecond)
	return c.Connection.Receive(ctx, queue, n)
}

// sendAll sends a message about each ten seconds. In between, the primary is out of
// order.
func (p *countedPair) sendAll(ctx context.Context, t *testing.T, did *cost.Relay) {
	began := time.Now()
	down := false
	for ctx.Err() == nil {
		switch since := time.Since(began); {
		case !down && since > 20*time.Minute && since < 20*time.Minute+outageLasts:
			down = true
			p.primary.Fail(devbus.Fault{Kind: devbus.RefuseDial})
			p.primary.DropConnections()
		case down && since > 20*time.Minute+outageLasts:
			down = false
			p.primary.Heal()
		}
		sending, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		r, err := p.sender.Send(sending, orders, text("x"))
		cancel()
		if err != nil {
			t.Error(err)
		}
		did.Messages++
		if r.Backlog {
			did.Backlog++
		}
		select {
		case <-time.After(9900 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// moveAll moves the backlog and samples it, as the timer or a worker does.
func (p *countedPair) moveAll(ctx context.Context, t *testing.T, hosted bool) {
	if !hosted {
		var sampling sync.WaitGroup
		defer sampling.Wait()
		sampling.Go(func() {
			for ctx.Err() == nil {
				again := 30 * time.Second
				if p.sample(t) == 0 {
					again *= 10
				}
				select {
				case <-time.After(again):
				case <-ctx.Done():
				}
			}
		})
		if err := p.syphon.Run(ctx); !errors.Is(err, errOver) {
			t.Error(err)
		}
		return
	}
	// A little later each time, so that no pass begins as a link ends.
	for tick := time.NewTicker(time.Minute + time.Millisecond); ctx.Err() == nil; {
		r, err := p.syphon.Pass(t.Context())
		if err != nil {
			t.Error(err)
		}
		if r.More {
			p.sample(t)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
		}
	}
}

// sample counts the messages of the backlog as the app does.
func (p *countedPair) sample(t *testing.T) (messages float64) {
	admin := &counting{Queues: p.admin}
	b, err := p.syphon.Backlog(t.Context(), admin)
	if err != nil {
		t.Error(err)
	}
	for _, e := range b.Entities {
		messages += float64(e.Messages)
	}
	if messages > 0 {
		p.sampled += messages + backlogQueues - float64(admin.depths.Load()) // a peek at an empty queue is one, too
	}
	return messages
}

// counting counts the queues whose depth is read: those that are not empty.
type counting struct {
	relay.Queues
	depths atomic.Int64
}

func (c *counting) Depth(ctx context.Context, queue string) (int64, error) {
	c.depths.Add(1)
	return c.Queues.Depth(ctx, queue)
}

// checkCost compares counts with a prediction, each operation and in total, and
// returns by how much the total is off.
func checkCost(t *testing.T, hosted bool, counted map[string]int64, predicted []cost.Line) float64 {
	t.Helper()
	want := make(map[string]float64)
	for _, l := range predicted {
		want[l.Operation] += l.Count
	}
	total := 0.0
	for name, n := range counted {
		total += float64(n)
		want[name] += 0 // so that it is compared
	}
	for name, w := range want {
		if n := float64(counted[name]); math.Abs(n-w) > max(4, 0.02*n) {
			t.Errorf("hosted %t: %s: %.0f operations, %.1f predicted", hosted, name, n, w)
		}
	}
	off := math.Abs(cost.Total(predicted)/total - 1)
	if off > 0.01 {
		t.Errorf("hosted %t: %.0f operations, %.1f predicted: %.2f %% off; %v", hosted, total, cost.Total(predicted), 100*off, counted)
	}
	return off
}
