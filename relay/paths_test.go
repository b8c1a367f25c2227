package relay_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

// A target whose messages another syphon moved does not make this one hurry to
// another target that still fails.
func TestForgottenTargetDoesNotHurryTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.fill(t, "orders", text("a"))
		p.fill(t, "other", text("b"))
		down := func(names ...string) {
			p.primary.set(func(_, entity string) fault {
				for _, name := range names {
					if name == entity {
						return refuse
					}
				}
				return none
			})
		}
		down("orders", "other")
		s := p.syphon(nil)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		time.Sleep(10 * time.Second)
		for _, q := range queues { // as another syphon does
			p.secondary.discard(q, "orders")
		}
		time.Sleep(10 * time.Minute)
		before := len(p.primary.sends("other"))
		received := p.secondary.receives()
		time.Sleep(10 * time.Minute)
		if n := len(p.primary.sends("other")) - before; n < 15 || n > 25 {
			t.Errorf("the target that fails was tried %d times in 10 minutes, want about 20", n)
		}
		if n := p.secondary.receives() - received; n > 150 {
			t.Errorf("%d receives in 10 minutes", n)
		}
		stop()
		running.Wait()
		s.Close(t.Context())
	})
}
