package relay_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

// An entity is not reported as throttled after its wait is over, also if nothing
// was sent since.
func TestThrottlingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		defer p.close(t)
		p.primary.set(always(busy))
		p.send(time.Second, "orders", text("a"))
		if s := p.Status()[0]; !s.Throttled || s.LastErr == nil {
			t.Errorf("%+v, want it throttled", s)
		}
		time.Sleep(12 * time.Second)
		if s := p.Status()[0]; s.Throttled || s.LastErr != nil {
			t.Errorf("%+v, want it not throttled", s)
		}
	})
}

// A namespace that no longer answers is not busy: its sends wait for the
// failover, and do not end with the wrong reason.
func TestOutageAfterThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: new(10 * time.Second)})
		defer p.close(t)
		p.primary.set(always(busy))
		p.send(time.Second, "orders", text("a"))
		time.Sleep(12 * time.Second)
		p.primary.set(always(hang))
		var all sync.WaitGroup
		all.Go(func() { p.send(time.Minute, "orders", text("b")) })
		time.Sleep(6 * time.Second) // suspect now
		if s := p.Status()[0]; s.Throttled || s.State != relay.Suspect {
			t.Errorf("%+v, want it suspect and not throttled", s)
		}
		p.primary.set(nil)
		_, err := p.send(8*time.Second, "orders", text("c"))
		if failure, ok := errors.AsType[*relay.SendError](err); ok && failure.Class == relay.Throttled {
			t.Errorf("got %v", err)
		}
		all.Wait()
	})
}

// The caller's time was over before the send.
func TestEndedContextSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		defer p.close(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := p.Send(ctx, "orders", text("a"))
		failure, ok := errors.AsType[*relay.SendError](err)
		if !ok || failure.Unclear || !errors.Is(err, context.Canceled) || len(p.primary.sends("orders")) > 0 {
			t.Errorf("got %v after %d attempts, want an error that is not unclear", err, len(p.primary.sends("orders")))
		}
	})
}

// An attempt that began before a failover neither delays the trial after it nor
// decides it.
func TestOldAttemptDoesNotDecideTheTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, relay.Options{Interval: new(2 * time.Second)}.WithTimes(20*time.Second, 2*time.Second))
		defer p.close(t)
		p.primary.set(always(refuse))
		p.send(50*time.Millisecond, "orders", text("a"))
		p.primary.set(nil)
		time.Sleep(5 * time.Second)
		var old atomic.Bool // the first send since then has no answer
		p.primary.set(func(op, _ string) fault {
			if op == "send" && old.CompareAndSwap(false, true) {
				return hang
			}
			return none
		})
		var all sync.WaitGroup
		all.Go(func() { p.send(time.Minute, "orders", text("b")) })
		time.Sleep(time.Second)
		if r, err := p.send(time.Minute, "orders", text("c")); err != nil || !r.Backlog {
			t.Fatalf("%+v, %v, want a failover", r, err)
		}
		time.Sleep(5 * time.Second)
		if r, err := p.send(time.Minute, "orders", text("d")); err != nil || r.Backlog {
			t.Errorf("after the failback: %+v, %v", r, err)
		}
		all.Wait()
		if n := p.Stats().Failovers; n != 1 {
			t.Errorf("%d failovers, want one", n)
		}
	})
}

// A connection that never answers is replaced, however short the deadlines are.
func TestShortDeadlinesReplaceConnections(t *testing.T) {
	for _, o := range []*relay.Options{{Interval: new(time.Hour)}, relay.Options{Interval: new(time.Hour)}.WithTimes(500*time.Millisecond, 0)} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, o)
			defer p.close(t)
			p.primary.set(always(hang))
			p.send(500*time.Millisecond, "orders", text("a"))
			p.primary.set(nil) // but the connection stays dead for a minute
			for range 10 {
				p.send(500*time.Millisecond, "orders", text("b"))
			}
			if r, err := p.send(500*time.Millisecond, "orders", text("c")); err != nil {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// Many impatient callers at once do not replace a connection.
func TestImpatientCallersKeepTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		defer p.close(t)
		p.primary.slow(time.Second)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { p.send(500*time.Millisecond, "orders", text("a")) })
		}
		all.Wait()
		if n := p.Stats().Replaced; n != 0 {
			t.Errorf("%d connections were replaced, want none", n)
		}
	})
}
