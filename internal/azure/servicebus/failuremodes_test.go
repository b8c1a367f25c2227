package servicebus

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/azure/requests"
	"kennel/internal/dev/devbus"
	"kennel/relay"
)

// The failure modes of docs/testing.md that need the SDK. Package relay has the
// others, and TestListeningRecovers has number 24.

// pair is a primary and a secondary namespace with two backlog queues.
type pair struct {
	primary, secondary *devbus.Broker
	p, s               *Relay
	queues             []string
	used               *requests.Counter // of the secondary

	mu     sync.Mutex
	events []relay.Event
}

// withPair runs a test in virtual time with two buses.
func withPair(t *testing.T, settings *devbus.Settings, test func(t *testing.T, p *pair)) {
	t.Helper()
	withQueue(t, settings, func(t *testing.T, b *devbus.Broker) {
		p := &pair{primary: b, secondary: devbus.New(nil), queues: relay.BacklogQueues("contoso", 2), used: &requests.Counter{}}
		t.Cleanup(func() {
			p.secondary.Heal()
			p.secondary.Close()
		})
		o := inProcess(p.secondary)
		o.Requests = p.used
		p.p, p.s = openRelay(t, inProcess(b)), openRelay(t, o)
		if _, err := relay.EnsureQueues(t.Context(), p.s, p.queues); err != nil {
			t.Fatal(err)
		}
		test(t, p)
	})
}

func (p *pair) event(e relay.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

// deliveries returns how many messages were delivered.
func deliveries(c *requests.Counter) (n int64) {
	for label, count := range c.All() {
		if label.Operation == requests.Deliver {
			n += count
		}
	}
	return n
}

// atOnce lets an entity fail over at the first failure.
var atOnce = new(time.Duration)

func newSender(t testing.TB, primary, secondary relay.Namespace, queues []string, options *relay.Options) *relay.Sender {
	t.Helper()
	s, err := relay.NewSender(primary, secondary, queues, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newSyphon(t testing.TB, primary, secondary relay.Namespace, queues []string, options *relay.Options) *relay.Syphon {
	t.Helper()
	s, err := relay.NewSyphon(primary, secondary, queues, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sender returns a sender that fails over at the first failure.
func (p *pair) sender(t *testing.T) *relay.Sender {
	s := newSender(t, p.p, p.s, p.queues, &relay.Options{Interval: atOnce, OnEvent: p.event})
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// syphon runs a syphon until the end of the test.
func (p *pair) syphon(t *testing.T) {
	s := newSyphon(t, p.p, p.s, p.queues, &relay.Options{OnEvent: p.event})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		s.Close(context.Background())
	})
}

// sample is an outage as make test can afford it.
func sample(name string) outage {
	return outage{outageFault: named(name), interval: 10 * time.Second, lasts: 30 * time.Second, every: time.Second}
}

func TestFailureMode01DialRefused(t *testing.T) { sample("dial refused").run(t) }

// TestFailureMode02BlackHole: the connections that do not answer are replaced.
func TestFailureMode02BlackHole(t *testing.T) {
	if f := sample("black hole").run(t); f.replaced == 0 {
		t.Errorf("no connection was replaced: %v", f)
	}
}

// TestFailureMode03FrozenConnection: the relay is back at the primary while the
// connection of its earlier sends is still dead.
func TestFailureMode03FrozenConnection(t *testing.T) {
	withPair(t, nil, func(t *testing.T, p *pair) {
		s := p.sender(t)
		send := func() relay.Receipt {
			t.Helper()
			receipt, err := s.Send(within(t, 30*time.Second), orders, text("x"))
			if err != nil {
				t.Fatal(err)
			}
			return receipt
		}
		send()
		p.primary.Fail(devbus.Fault{Kind: devbus.Freeze})
		hole := p.primary.Fail(devbus.Fault{Kind: devbus.BlackHole})
		for range 2 {
			if !send().Backlog {
				t.Error("it did not fail over")
			}
		}
		p.primary.Heal(hole)
		time.Sleep(2*pingInterval + time.Second)
		began := time.Now()
		if send().Backlog || time.Since(began) > 100*time.Millisecond {
			t.Errorf("it did not fail back, within %v", time.Since(began))
		}
	})
}

// TestFailureMode04AnswerLost: the copies of a message whose answer was lost
// have one message ID, so duplicate detection leaves one of them.
func TestFailureMode04AnswerLost(t *testing.T) {
	for _, dedup := range []bool{false, true} {
		for _, fault := range []devbus.Fault{
			{Kind: devbus.CloseAfter, Times: 1}, {Kind: devbus.SilentAfter, Times: 1}, {Kind: devbus.DetachAfter, Times: 1},
			{Kind: devbus.DetachAfter, Times: 1, Condition: "amqp:link:detach-forced"},
		} {
			settings := &devbus.Settings{}
			if dedup {
				settings.DuplicateWindow = 10 * time.Minute
			}
			withPair(t, settings, func(t *testing.T, p *pair) {
				s := newSender(t, p.p, p.s, p.queues, nil)
				defer s.Close(context.Background())
				p.primary.Fail(fault)
				if _, err := s.Send(within(t, 30*time.Second), orders, text("x")); err != nil {
					t.Error(err)
				}
				ids := make(map[any]int)
				for _, d := range receive(t, connect(t, inProcess(p.primary)), 10) {
					ids[d.Message.Properties.MessageID]++
				}
				for id, n := range ids {
					if len(ids) != 1 || int64(n) > 1+s.Stats().Ambiguous || dedup && n != 1 {
						t.Errorf("%v %s, duplicate detection %t: %d copies of %v of %d, %d ambiguous attempts", fault.Kind, fault.Condition, dedup, n, id, len(ids), s.Stats().Ambiguous)
					}
				}
				if len(ids) == 0 {
					t.Errorf("%v: the message is lost", fault.Kind)
				}
			})
		}
	}
}

func TestFailureMode05Throttled(t *testing.T) { sample("busy").run(t) }

// TestFailureMode06UnauthorizedOnPrimary: the caller learns it at once, and
// nothing goes to the backlog.
func TestFailureMode06UnauthorizedOnPrimary(t *testing.T) {
	withPair(t, nil, func(t *testing.T, p *pair) {
		s := p.sender(t)
		p.primary.Fail(devbus.Fault{Kind: devbus.CBS, Status: 401})
		began := time.Now()
		_, err := s.Send(within(t, time.Minute), orders, text("x"))
		if e, ok := errors.AsType[*relay.SendError](err); !ok || e.Class != relay.Denied || e.Unclear || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if stats := s.Stats(); stats.Failovers != 0 || p.secondary.Stats().Stored != 0 {
			t.Errorf("it failed over: %+v", stats)
		}
	})
}

// TestFailureMode07UnauthorizedOnSecondary: the set-up fails at once, and a send
// that needs the backlog reports both causes.
func TestFailureMode07UnauthorizedOnSecondary(t *testing.T) {
	withPair(t, nil, func(t *testing.T, p *pair) {
		p.secondary.Fail(devbus.Fault{Kind: devbus.Admin, Status: 401})
		began := time.Now()
		_, err := relay.EnsureQueues(t.Context(), p.s, p.queues)
		wantClass(t, "set up", err, relay.Denied)
		if took := time.Since(began); took > 0 {
			t.Errorf("the set-up failed after %v", took)
		}
		p.primary.Fail(devbus.Fault{Kind: devbus.RefuseDial})
		p.secondary.Fail(devbus.Fault{Kind: devbus.CBS, Status: 401})
		_, err = p.sender(t).Send(within(t, 5*time.Second), orders, text("x"))
		e, ok := errors.AsType[*relay.SendError](err)
		if !ok || e.Unclear || e.Primary == nil || e.Secondary == nil || !strings.Contains(err.Error(), "primary: unavailable") || !strings.Contains(err.Error(), "secondary: denied") {
			t.Errorf("got %v", err)
		}
	})
}

// TestFailureMode17UnreadableMessage: a message in the backlog on which the SDK
// panics is reported with its queue, and neither holds the others nor is received
// in a loop.
func TestFailureMode17UnreadableMessage(t *testing.T) {
	withPair(t, nil, func(t *testing.T, p *pair) {
		p.primary.Fail(devbus.Fault{Kind: devbus.RefuseDial})
		s := p.sender(t)
		const messages, minutes = 20, 15
		for i := range messages {
			if i == messages/2 {
				m := text("unreadable")
				m.ApplicationProperties = map[string]any{"DeadLetterReason": int64(5)}
				if err := connect(t, inProcess(p.secondary)).Send(within(t, time.Second), p.queues[0], m); err != nil {
					t.Fatal(err)
				}
			}
			if receipt, err := s.Send(within(t, 10*time.Second), orders, text("x")); err != nil || !receipt.Backlog {
				t.Fatal(err)
			}
		}
		p.primary.Heal()
		p.syphon(t)
		time.Sleep(minutes * time.Minute)
		if got := ready(t, p.primary); got != messages {
			t.Errorf("%d messages arrived, want %d", got, messages)
		}
		if c, err := p.secondary.Counts(p.queues[0]); err != nil || c.Ready+c.Locked != 1 || c.DeadLetters != 0 {
			t.Errorf("its queue has %+v and error %v, want the message", c, err)
		}
		bad := 0
		for _, e := range p.events {
			if e.Kind == relay.BadMessage {
				if bad++; e.Queue != p.queues[0] {
					t.Errorf("the event names the queue %q", e.Queue)
				}
			}
		}
		if delivered := deliveries(p.used); bad == 0 || bad > minutes+1 || delivered > 3*messages+minutes {
			t.Errorf("it was reported %d times in %d minutes, and %d messages were delivered", bad, minutes, delivered)
		}
	})
}

// TestFailureMode25Released: the SDK reports the outcomes "released" and
// "modified" as success, although the bus did not store the message. The message
// goes to the backlog, and without one the send fails.
func TestFailureMode25Released(t *testing.T) {
	for _, kind := range []devbus.Kind{devbus.Release, devbus.Modify} {
		withPair(t, nil, func(t *testing.T, p *pair) {
			p.primary.Fail(devbus.Fault{Kind: kind})
			receipt, err := p.sender(t).Send(within(t, time.Second), orders, text("x"))
			if err != nil || !receipt.Backlog || ready(t, p.primary) != 0 {
				t.Errorf("fault %v: the receipt is %+v, error %v", kind, receipt, err)
			}
			alone := newSender(t, p.p, nil, nil, nil)
			defer alone.Close(context.Background())
			_, err = alone.Send(within(t, 3*time.Second), orders, text("y"))
			failed, ok := errors.AsType[*relay.SendError](err)
			if !ok || failed.Class != relay.Unavailable || failed.Unclear {
				t.Errorf("fault %v, without a secondary: error %v, unclear %v", kind, err, ok && failed.Unclear)
			}
		})
	}
}

// TestFailureMode26ReceivesNothing: the SDK returns neither messages nor an
// error when the connection ends under a receiver. The syphon neither gives up
// nor calls it in a loop.
func TestFailureMode26ReceivesNothing(t *testing.T) {
	withPair(t, nil, func(t *testing.T, p *pair) {
		var dials atomic.Int64
		p.s = openRelay(t, counted(inProcess(p.secondary), &dials))
		p.syphon(t)
		for range 20 {
			time.Sleep(time.Second)
			p.secondary.DropConnections()
		}
		p.secondary.Fail(devbus.Fault{Kind: devbus.RefuseDial})
		p.secondary.DropConnections()
		time.Sleep(10 * time.Minute)
		if got := dials.Load(); got > 150 {
			t.Errorf("it connected %d times in ten minutes", got)
		}
		p.secondary.Heal()
		time.Sleep(31 * time.Second) // its longest pause
		p.primary.Fail(devbus.Fault{Kind: devbus.RefuseDial})
		if _, err := p.sender(t).Send(within(t, 10*time.Second), orders, text("x")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		p.primary.Heal()
		time.Sleep(time.Minute)
		if got := ready(t, p.primary); got != 1 {
			t.Errorf("%d messages arrived, want 1", got)
		}
	})
}
