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

func TestFailover(t *testing.T) {
	for _, f := range []fault{refuse, hang, drop, storeDrop, storeHang, internal} {
		for _, interval := range []time.Duration{-1, 10 * time.Second, time.Minute} {
			t.Run(fmt.Sprint(f, interval), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { failover(t, f, interval) })
			})
		}
	}
}

// failover lets 8 producers send through an outage.
func failover(t *testing.T, f fault, interval time.Duration) {
	const outage, producers, messages = 2 * time.Minute, 8, 40
	p := newPair(t, relay.Options{Interval: interval})
	defer p.close(t)
	bound := max(interval, 0) + 5*time.Second + time.Second
	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() {
			for n := range messages {
				began := time.Now()
				id := fmt.Sprintf("%d-%d", i, n)
				if _, err := p.send(2*time.Minute, "orders", text(id)); err != nil {
					t.Errorf("message %s: %v", id, err)
				}
				if took := time.Since(began); took > bound {
					t.Errorf("message %s took %v, more than %v", id, took, bound)
				}
				time.Sleep(4 * time.Second)
			}
		})
	}
	time.Sleep(10 * time.Second)
	p.primary.set(always(f))
	time.Sleep(outage)
	p.primary.set(nil)
	back := time.Now()
	for p.Status()[0].State != relay.Healthy {
		time.Sleep(100 * time.Millisecond)
	}
	if took := time.Since(back); took > 21*time.Second {
		t.Errorf("failback took %v, want at most two pings and a second", took)
	}
	wg.Wait()
	stats := p.Stats()
	if stats.Failovers != 1 || stats.Failbacks != 1 {
		t.Errorf("%d failovers and %d failbacks, want one of each", stats.Failovers, stats.Failbacks)
	}
	if stats.Backlog == 0 || stats.Primary+stats.Backlog != messages*producers {
		t.Errorf("stats: %+v", stats)
	}
	copies, all := 0, ids(p.primary.got("orders"))
	for _, q := range queues {
		for id, n := range ids(p.secondary.got(q)) {
			all[id] += n
		}
	}
	for _, n := range all {
		copies += n - 1
	}
	if len(all) != messages*producers {
		t.Errorf("%d messages arrived, want %d", len(all), messages*producers)
	}
	if int64(copies) > stats.Ambiguous {
		t.Errorf("%d duplicates, more than %d ambiguous attempts", copies, stats.Ambiguous)
	}
}

func TestThrottlingWaitsAndNeverFailsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, relay.Options{})
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
		attempts := p.primary.sends("orders")
		for i := 1; i < len(attempts); i++ {
			if d := attempts[i].Sub(attempts[i-1]); d < 10*time.Second && attempts[i].Before(attempts[0].Add(5*time.Minute)) {
				t.Errorf("attempt %d came %v after the one before", i, d)
			}
		}
	})
}

func TestCallersFaultsReturnAtOnce(t *testing.T) {
	for f, want := range map[fault]relay.Class{denied: relay.Denied, full: relay.Full, bad: relay.Invalid} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, relay.Options{})
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
			if s := p.Status()[0].State; s != relay.Healthy {
				t.Errorf("%v: the entity is %v", f, s)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, relay.Options{})
		defer p.close(t)
		if _, err := p.send(time.Minute, "missing", text("a")); !strings.Contains(err.Error(), "not found") {
			t.Errorf("got %v, want not found", err)
		}
	})
}

func TestDeadlineIsKept(t *testing.T) {
	for _, f := range []fault{refuse, hang, drop, internal, busy} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, relay.Options{})
			defer p.close(t)
			p.primary.set(always(f))
			p.secondary.set(always(f))
			for range 20 {
				began := time.Now()
				_, err := p.send(3*time.Second, "orders", text("a"))
				if err == nil {
					t.Fatalf("%v: sent", f)
				}
				if took := time.Since(began); took > 3100*time.Millisecond {
					t.Errorf("%v: took %v, more than 3s and 100ms", f, took)
				}
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
}

// A closed sender ends its sends at once, as not sent.
func TestSendAfterClose(t *testing.T) {
	for _, f := range []fault{none, refuse} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, relay.Options{Interval: -1})
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
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, relay.Options{Interval: -1})
		defer p.close(t)
		p.primary.set(func(_, entity string) fault {
			if entity == "orders" {
				return drop
			}
			return none
		})
		for i := range 100 {
			r, err := p.send(time.Minute, "orders", text(fmt.Sprint(i)))
			if err != nil || !r.Backlog {
				t.Fatalf("orders: %+v, %v", r, err)
			}
			began := time.Now()
			if r, err := p.send(time.Minute, "other", text(fmt.Sprint(i))); err != nil || r.Backlog {
				t.Fatalf("other: %+v, %v", r, err)
			}
			if took := time.Since(began); took > 5*time.Millisecond {
				t.Errorf("other took %v", took)
			}
		}
	})
}

func TestBadBacklogQueueIsLeftOutAndReadmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, relay.Options{Interval: -1})
		defer p.close(t)
		p.primary.set(always(refuse))
		p.secondary.set(func(_, queue string) fault {
			if queue == queues[0] {
				return full
			}
			return none
		})
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

func TestSilentConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, relay.Options{})
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
		p := newPair(t, relay.Options{Interval: 10 * time.Second})
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

func TestFlappingIsDamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, relay.Options{Interval: -1})
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
		s := relay.NewSender(primary, nil, nil, nil)
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
