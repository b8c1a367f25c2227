package relay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

func TestFailureMode05Throttled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		defer p.close(t)
		p.primary.set(always(busy))
		_, err := p.send(5*time.Second, "orders", text("a"))
		failure, ok := errors.AsType[*relay.SendError](err)
		if !ok || failure.Class != relay.Throttled || failure.RetryAfter < 5*time.Second || failure.Unclear {
			t.Fatalf("got %#v, want a throttled error with the time to wait", err)
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if r, err := p.send(10*time.Minute, "orders", text(fmt.Sprint(i))); err != nil || r.Backlog {
					t.Errorf("message %d: %+v, %v", i, r, err)
				}
			})
		}
		time.Sleep(5 * time.Minute)
		p.primary.set(nil)
		wg.Wait()
		if n := p.Stats().Failovers; n != 0 {
			t.Errorf("%d failovers, want none", n)
		}
		attempts, shortest := p.primary.sends("orders"), time.Hour
		for i := 1; i < len(attempts) && attempts[i].Before(attempts[0].Add(5*time.Minute)); i++ {
			shortest = min(shortest, attempts[i].Sub(attempts[i-1]))
		}
		if shortest < 10*time.Second {
			t.Errorf("an attempt came %v after the one before", shortest)
		}
		t.Logf("figure: failovers in 5 minutes of a busy namespace, 20 sends | %d | 0", p.Stats().Failovers)
		t.Logf("figure: time between two attempts at an entity of a busy namespace | %v | ≥ 10s", shortest.Round(time.Millisecond))
	})
}

func TestCallersFaultsReturnAtOnce(t *testing.T) {
	for f, want := range map[fault]relay.Class{denied: relay.Denied, full: relay.Full, bad: relay.Invalid} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, nil)
			defer p.close(t)
			p.primary.set(always(f))
			began := time.Now()
			_, err := p.send(time.Minute, "orders", text("a"))
			if failure, ok := errors.AsType[*relay.SendError](err); !ok || failure.Class != want || failure.Unclear {
				t.Errorf("%v: got %v, want the class %v", f, err, want)
			}
			if took := time.Since(began); took > 10*time.Millisecond {
				t.Errorf("%v: took %v", f, took)
			}
			if n := p.Stats().Failovers; n != 0 {
				t.Errorf("%v: %d failovers", f, n)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		defer p.close(t)
		if _, err := p.send(time.Minute, "missing", text("a")); !strings.Contains(err.Error(), "not found") {
			t.Errorf("got %v, want not found", err)
		}
	})
}

func TestDeadlineIsKept(t *testing.T) {
	var worst time.Duration
	for _, f := range []fault{refuse, hang, drop, internal, busy} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, nil)
			defer p.close(t)
			p.primary.set(always(f))
			p.secondary.set(always(f))
			for range 20 {
				began := time.Now()
				_, err := p.send(3*time.Second, "orders", text("a"))
				if err == nil {
					t.Fatalf("%v: sent", f)
				}
				worst = max(worst, time.Since(began)-3*time.Second)
			}
			if f == busy {
				return
			}
			_, err := p.send(3*time.Second, "orders", text("a"))
			failure, ok := errors.AsType[*relay.SendError](err)
			if !ok || failure.Secondary == nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: got %v, want the secondary's error and the deadline", f, err)
			}
		})
	}
	if worst > 100*time.Millisecond {
		t.Errorf("a send ended %v after its deadline", worst)
	}
	t.Logf("figure: a send ends after its deadline, both namespaces down in 5 ways | %v | ≤ 100ms", worst)
}

// A closed sender ends its sends at once, as not sent.
func TestSendAfterClose(t *testing.T) {
	for _, f := range []fault{none, refuse} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, &relay.Options{Interval: atOnce})
			p.primary.set(always(f))
			p.send(time.Minute, "orders", text("a"))
			p.close(t)
			began := time.Now()
			_, err := p.send(time.Minute, "orders", text("b"))
			failure, ok := errors.AsType[*relay.SendError](err)
			if !ok || !errors.Is(err, relay.ErrClosed) || failure.Unclear || time.Since(began) > 0 {
				t.Errorf("%v: got %v after %v, want ErrClosed at once", f, err, time.Since(began))
			}
		})
	}
}

func TestEntitiesAreIndependent(t *testing.T) {
	for _, f := range []fault{hang, drop, busy} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, &relay.Options{Interval: atOnce})
			defer p.close(t)
			measure := func() time.Duration {
				var all []time.Duration
				for i := range 100 {
					began := time.Now()
					if r, err := p.send(time.Minute, "other", text(fmt.Sprint(i))); err != nil || r.Backlog {
						t.Fatalf("%v: other: %+v, %v", f, r, err)
					}
					all = append(all, time.Since(began))
					time.Sleep(50 * time.Millisecond)
				}
				return p99(all)
			}
			before := measure()
			p.primary.set(onlyAt("orders", f))
			stop := make(chan struct{})
			var sending sync.WaitGroup
			for range 4 {
				sending.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						case <-time.After(25 * time.Millisecond):
							p.send(time.Second, "orders", text(fmt.Sprint(i)))
						}
					}
				})
			}
			during := measure()
			close(stop)
			sending.Wait()
			if during > before+before/10 {
				t.Errorf("%v: p99 of another entity is %v instead of %v", f, during, before)
			}
			t.Logf("figure: p99 of sends to another entity, while one does %v (before: %v) | %v | + 10 %%", f, before, during)
		})
	}
}

func TestFailureMode08BadBacklogQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.primary.set(always(refuse))
		p.secondary.set(onlyAt(queues[0], full))
		send := func(n int) {
			for i := range n {
				if _, err := p.send(time.Minute, "orders", text(fmt.Sprint(i))); err != nil {
					t.Fatal(err)
				}
			}
		}
		send(50)
		if n := p.Stats().BadQueues; n != 1 {
			t.Errorf("the bad queue was tried %d times, want once", n)
		}
		p.secondary.set(nil)
		time.Sleep(time.Minute)
		send(50)
		if n, _ := p.secondary.left(queues[0]); n == 0 {
			t.Error("the queue was not admitted again")
		}
	})
}

// A backlog queue that does not answer costs one send half of its time, also if
// the deadlines of all senders are shorter than an attempt may take.
func TestFailureMode08SilentBacklogQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.primary.set(always(refuse))
		p.secondary.set(onlyAt(queues[0], hang))
		slow := 0
		for i := range 50 {
			began := time.Now()
			if _, err := p.send(3*time.Second, "orders", text(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
			if time.Since(began) > 100*time.Millisecond {
				slow++
			}
		}
		if n := p.Stats().BadQueues; n != 1 || slow != 1 {
			t.Errorf("the queue was tried %d times, and %d sends were slow, want one of each", n, slow)
		}
	})
}

// unattached is a namespace to which no sender attaches in time.
type unattached struct{ *bus }

func (u unattached) Connect() (relay.Connection, error) {
	c, err := u.bus.Connect()
	return unattachedConn{c}, err
}

type unattachedConn struct{ relay.Connection }

func (c unattachedConn) Send(ctx context.Context, _ string, _ *relay.Message) error {
	<-ctx.Done()
	return &relay.Error{Class: relay.Unavailable, Unsent: true, Err: errors.New("not attached")}
}

// An attempt that took too long to begin has certainly sent nothing.
func TestTimeoutBeforeSendIsNotUnclear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, unattached{newBus("orders")}, nil, nil, nil)
		defer s.Close(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		_, err := s.Send(ctx, "orders", text("a"))
		failure, ok := errors.AsType[*relay.SendError](err)
		if !ok || failure.Unclear || failure.Class != relay.Unavailable || s.Stats().Ambiguous != 0 {
			t.Errorf("got %v, want an error that is not unclear", err)
		}
	})
}

func TestSilentConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		defer p.close(t)
		p.primary.set(always(hang))
		p.send(7*time.Second, "orders", text("a"))
		p.primary.set(nil) // but the connection stays dead for a minute
		began := time.Now()
		for i := range 4 {
			p.send(4*time.Second, "orders", text(fmt.Sprint(i)))
		}
		if r, err := p.send(20*time.Second, "orders", text("b")); err != nil {
			t.Errorf("%+v, %v after %v", r, err, time.Since(began))
		}
		if p.Stats().Replaced == 0 {
			t.Error("no connection was replaced")
		}
	})
}

func TestShortDeadlinesFailOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: new(10 * time.Second)})
		defer p.close(t)
		p.primary.set(always(hang))
		began := time.Now()
		for {
			if r, err := p.send(2*time.Second, "orders", text("a")); err == nil && r.Backlog {
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatal("no failover although no attempt is ever answered")
			}
		}
	})
}

// Callers that give up at once are no sign of an outage.
func TestImpatientCallersDoNotFailOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		for range 100 {
			p.send(time.Millisecond, "orders", text("a")) // an answer takes 5 ms
			time.Sleep(10 * time.Second)
		}
		if n := p.Stats().Failovers; n != 0 {
			t.Errorf("%d failovers, want none", n)
		}
	})
}

func TestFailureMode22Flapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		began := time.Now()
		p.primary.set(func(op, _ string) fault { // every second second, and pings always work
			if op == "send" && int(time.Since(began).Seconds())%2 == 0 {
				return drop
			}
			return none
		})
		for i := range 3000 {
			if _, err := p.send(time.Minute, "orders", text(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n, pings := p.Stats().Failovers, int64(time.Since(began)/(9*time.Second)); n > pings/2+1 {
			t.Errorf("%d failovers in %v, more than one in two pings", n, time.Since(began))
		}
	})
}

func TestWithoutSecondarySendsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newBus("orders")
		s := newSender(t, primary, nil, nil, nil)
		defer s.Close(t.Context())
		primary.set(always(drop))
		time.AfterFunc(30*time.Second, func() { primary.set(nil) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if r, err := s.Send(ctx, "orders", text("a")); err != nil || r.Backlog {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
