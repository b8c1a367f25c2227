package servicebus

import (
	"context"
	"errors"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/azure/requests"
	"kennel/internal/dev/devbus"
	"kennel/relay"
)

const orders = "orders" // a queue

// withQueue runs a test in virtual time with a bus that has the queue orders.
func withQueue(t *testing.T, s *devbus.Settings, test func(t *testing.T, b *devbus.Broker)) {
	t.Helper()
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		if err := b.CreateQueue(orders, s); err != nil {
			t.Fatal(err)
		}
		test(t, b)
	})
}

func openRelay(t *testing.T, o *Options) *Relay {
	t.Helper()
	r, err := Namespace{ConnectionString: contoso}.OpenRelay(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// connect returns a connection that is closed at the end of the test, in
// bounded time.
func connect(t *testing.T, o *Options) relay.Connection {
	t.Helper()
	c, err := openRelay(t, o).Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		began := time.Now()
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(began); took > 2*closeTimeout {
			t.Errorf("Close took %v", took)
		}
	})
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func text(body string) *relay.Message {
	return &relay.Message{Body: azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte(body)}}}
}

// attempt sends a message with the deadline of an attempt.
func attempt(t *testing.T, c relay.Connection) error {
	return c.Send(within(t, 4*time.Second), orders, text("x"))
}

func mustSend(t *testing.T, c relay.Connection) {
	t.Helper()
	if err := attempt(t, c); err != nil {
		t.Fatal(err)
	}
}

func ready(t *testing.T, b *devbus.Broker) int {
	t.Helper()
	counts, err := b.Counts(orders)
	if err != nil {
		t.Fatal(err)
	}
	return counts.Ready
}

// errorOf returns the class of an error, or fails if it has none.
func errorOf(t *testing.T, err error) relay.Error {
	t.Helper()
	e, ok := errors.AsType[*relay.Error](err)
	if !ok {
		t.Fatalf("got %T %[1]v, want an error with a class", err)
	}
	return *e
}

func wantClass(t *testing.T, what string, err error, want relay.Class) {
	t.Helper()
	if got := errorOf(t, err); got.Class != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// TestSendReconnects: after a connection ended, or a line was replaced, the next
// send works at once, without a retry.
func TestSendReconnects(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		c := connect(t, inProcess(b))
		mustSend(t, c)
		for range 3 {
			b.DropConnections()
			synctest.Wait()
			mustSend(t, c)
		}
		if got := b.Stats().Connections; got != 4 {
			t.Errorf("%d connections, want 4", got)
		}
		for range 5 {
			time.Sleep(lineLifetime + time.Second)
			mustSend(t, c)
		}
		if got := ready(t, b); got != 9 {
			t.Errorf("stored %d messages, want 9", got)
		}
	})
}

// TestSilentLoss: sends fail in time on a connection that became silent, a ping
// notices that the bus is back, and a new connection works, while the old one is
// still dead.
func TestSilentLoss(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		old := connect(t, inProcess(b))
		mustSend(t, old)
		b.Fail(devbus.Fault{Kind: devbus.Freeze})
		hole := b.Fail(devbus.Fault{Kind: devbus.BlackHole})
		var sending sync.WaitGroup
		for range 8 {
			sending.Go(func() {
				began := time.Now()
				wantClass(t, "send", attempt(t, old), relay.Unavailable)
				if took := time.Since(began); took > 4*time.Second+100*time.Millisecond {
					t.Errorf("a send took %v", took)
				}
			})
		}
		sending.Wait()
		wantClass(t, "ping", old.Ping(within(t, 2*time.Second), orders), relay.Unavailable)
		b.Heal(hole)
		if err := old.Ping(within(t, 2*time.Second), orders); err != nil {
			t.Errorf("ping after the outage: %v", err)
		}
		wantClass(t, "send on the old connection", attempt(t, old), relay.Unavailable)
		mustSend(t, connect(t, inProcess(b)))
		time.Sleep(time.Minute)
		mustSend(t, old) // its line broke
	})
}

// TestBlackHole: concurrent sends that must connect return in time although
// nothing answers, and the next ones connect again.
func TestBlackHole(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		c := connect(t, inProcess(b))
		hole := b.Fail(devbus.Fault{Kind: devbus.BlackHole})
		var sending sync.WaitGroup
		for range 8 {
			sending.Go(func() {
				began := time.Now()
				err := errorOf(t, attempt(t, c))
				if took := time.Since(began); err.Class != relay.Unavailable || !err.Unsent || took > 4*time.Second+100*time.Millisecond {
					t.Errorf("%v after %v, unsent %t", &err, took, err.Unsent)
				}
			})
		}
		sending.Wait()
		b.Heal(hole)
		mustSend(t, c)
	})
}

// TestPing: a ping needs a new connection and sends nothing.
func TestPing(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		c := connect(t, inProcess(b))
		for i := range int64(3) {
			if err := c.Ping(within(t, time.Second), orders); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := b.Stats().Connections; got != i+1 || b.Connections() != 0 {
				t.Errorf("%d connections, %d open, want %d and none", got, b.Connections(), i+1)
			}
		}
		if got := b.Stats().Stored; got != 0 {
			t.Errorf("stored %d messages, want none", got)
		}
		wantClass(t, "ping without a queue", c.Ping(within(t, time.Second), "missing"), relay.NotFound)
		b.Fail(devbus.Fault{Kind: devbus.RefuseAttach, Entity: orders, Times: 1})
		wantClass(t, "ping while links are refused", c.Ping(within(t, time.Second), orders), relay.Unavailable)
	})
}

// TestEntitiesAreIndependent: a send to an entity that does not answer delays
// none to another one.
func TestEntitiesAreIndependent(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		if err := b.CreateQueue("other", nil); err != nil {
			t.Fatal(err)
		}
		c := connect(t, inProcess(b))
		b.Fail(devbus.Fault{Kind: devbus.Silent, Entity: orders})
		var sending sync.WaitGroup
		sending.Go(func() { wantClass(t, "send", attempt(t, c), relay.Unavailable) })
		synctest.Wait()
		began := time.Now()
		if err := c.Send(within(t, time.Second), "other", text("x")); err != nil || time.Since(began) != 0 {
			t.Errorf("send to another entity: %v after %v", err, time.Since(began))
		}
		sending.Wait()
	})
}

// TestCloseEndsCalls: Close ends the calls in progress, also if the bus is
// silent, and later calls fail.
func TestCloseEndsCalls(t *testing.T) {
	for _, kind := range []devbus.Kind{devbus.Silent, devbus.Freeze} {
		withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
			c := connect(t, inProcess(b))
			mustSend(t, c)
			b.Fail(devbus.Fault{Kind: kind})
			var calls sync.WaitGroup
			calls.Go(func() { wantClass(t, "send", c.Send(t.Context(), orders, text("x")), relay.Unavailable) })
			calls.Go(func() {
				if kind == devbus.Silent { // which concerns sends only
					if ds, err := c.Receive(t.Context(), orders, 1); len(ds) != 1 || err != nil {
						t.Errorf("received %d messages and error %v, want 1", len(ds), err)
					}
					if ds, err := c.Receive(t.Context(), orders, 1); len(ds) > 0 || err != nil {
						t.Errorf("received %d messages and error %v, want neither", len(ds), err)
					}
				}
			})
			synctest.Wait()
			if err := c.Close(within(t, 5*time.Second)); err != nil {
				t.Errorf("close: %v", err)
			}
			calls.Wait()
			if err := errorOf(t, attempt(t, c)); !err.Unsent {
				t.Errorf("after Close: %v, want an error of a message that was not sent", &err)
			}
		})
	}
}

// TestRelayRequests: what Service Bus charges for counts.
func TestRelayRequests(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		o := inProcess(b)
		o.Requests = &requests.Counter{}
		c := connect(t, o)
		mustSend(t, c)
		mustSend(t, c)
		locked, err := c.Receive(within(t, time.Second), orders, 10)
		if len(locked) != 2 || err != nil {
			t.Fatalf("received %d messages and error %v, want 2", len(locked), err)
		}
		if ds, err := c.Peek(within(t, time.Second), orders, 1, 10); len(ds) != 2 || err != nil {
			t.Fatalf("peeked at %d messages and error %v, want 2", len(ds), err)
		}
		if ds, err := c.Receive(within(t, time.Second), orders, 10); len(ds) != 0 || err != nil {
			t.Fatalf("received %d messages and error %v, want none", len(ds), err)
		}
		if err := c.Renew(within(t, time.Second), locked[0]); err != nil {
			t.Fatal(err)
		}
		for i, action := range []relay.Action{relay.Complete, relay.Abandon} {
			if err := c.Settle(within(t, time.Second), locked[i], relay.Settlement{Action: action}); err != nil {
				t.Fatal(err)
			}
		}
		b.Fail(devbus.Fault{Kind: devbus.Reject})
		wantClass(t, "send", attempt(t, c), relay.Unavailable)
		got := make(map[requests.Label]int64)
		maps.Insert(got, o.Requests.All())
		label := func(operation string) requests.Label {
			return requests.Label{Service: requests.Bus, Operation: operation, Job: "relay"}
		}
		// The first peek attached the receiver.
		if want := (map[requests.Label]int64{label("send"): 2, label("deliver"): 2, label("peek"): 3, label("receive nothing"): 1, label("renew"): 1, label("settle"): 2}); !maps.Equal(got, want) {
			t.Errorf("counted %v, want %v", got, want)
		}
	})
}

// TestNoLineWithoutLink: an entity that does not exist costs no connection.
func TestNoLineWithoutLink(t *testing.T) {
	withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
		c := connect(t, inProcess(b))
		for range 3 {
			wantClass(t, "send", c.Send(within(t, time.Second), "missing", text("x")), relay.NotFound)
			_, err := c.Receive(within(t, time.Second), "missing", 1)
			wantClass(t, "receive", err, relay.NotFound)
		}
		synctest.Wait()
		if got := b.Connections(); got != 0 {
			t.Errorf("%d connections, want none", got)
		}
	})
}

// TestDialIsBounded: a send does not wait for a dial beyond its deadline, and
// the SDK does not dial again by itself.
func TestDialIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		c := connect(t, &Options{Dial: func(ctx context.Context) (net.Conn, error) {
			dials.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		began := time.Now()
		err := errorOf(t, attempt(t, c))
		if took := time.Since(began); err.Class != relay.Unavailable || !err.Unsent || took > 4100*time.Millisecond {
			t.Errorf("%v after %v", &err, took)
		}
		time.Sleep(time.Minute)
		if got := dials.Load(); got != 1 {
			t.Errorf("dialed %d times, want once", got)
		}
	})
}
