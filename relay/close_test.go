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

// Close ends all sends at once, also those without a deadline, and an attempt
// that it cuts off is no failure of the primary.
func TestCloseEndsSends(t *testing.T) {
	for name, faults := range map[string][2]fault{
		"healthy":             {none, none},
		"no answer":           {hang, none},
		"throttled":           {busy, none},
		"both namespaces":     {refuse, refuse},
		"silence of both":     {hang, hang},
		"a full backlog":      {refuse, full},
		"refused all the way": {internal, busy},
	} {
		for _, interval := range []time.Duration{0, time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, &relay.Options{Interval: &interval})
				p.primary.set(always(faults[0]))
				p.secondary.set(always(faults[1]))
				var sending sync.WaitGroup
				for i := range 4 {
					sending.Go(func() {
						for n := 0; ; n++ {
							_, err := p.Send(context.Background(), "orders", inSession(fmt.Sprintf("%d-%d", i, n), "s"))
							if errors.Is(err, relay.ErrClosed) {
								return
							}
							if err != nil && faults[0] != busy {
								t.Errorf("%s: %v", name, err)
							}
						}
					})
				}
				time.Sleep(3*time.Second + 3*time.Millisecond)
				before, began := len(p.events()), time.Now()
				p.close(t)
				sending.Wait()
				if took := time.Since(began); took > 10*time.Millisecond {
					t.Errorf("%s: the sends ended %v after Close", name, took)
				}
				for _, e := range p.events()[before:] {
					if e.Kind == relay.StateChanged {
						t.Errorf("%s: Close changed the state from %v to %v", name, e.From, e.To)
					}
				}
			})
		}
	}
}

// An entity that is deleted while it is failed over does not fill the backlog
// for ever: its senders learn of it.
func TestEntityDeletedWhileFailedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.primary.set(always(refuse))
		if r, err := p.send(time.Minute, "gone", text("a")); err != nil || !r.Backlog {
			t.Fatalf("%+v, %v", r, err)
		}
		p.primary.set(nil)
		time.Sleep(21 * time.Second)
		_, err := p.send(time.Minute, "gone", text("b"))
		if failure, ok := errors.AsType[*relay.SendError](err); !ok || failure.Class != relay.NotFound {
			t.Errorf("got %v, want the class %v", err, relay.NotFound)
		}
	})
}

// Names that callers make up leave nothing behind.
func TestUnknownEntitiesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		defer p.close(t)
		var all sync.WaitGroup
		for i := range 100 {
			for range 3 {
				all.Go(func() { p.send(time.Minute, fmt.Sprintf("name%d", i), text("a")) })
			}
		}
		all.Wait()
		if _, err := p.send(time.Minute, "orders", text("a")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if all := p.Status(); len(all) != 1 || p.primary.open != 1 {
			t.Errorf("%d entities and %d connections are left, want one of each", len(all), p.primary.open)
		}
		p.primary.set(always(busy))
		p.send(time.Second, "name", text("a"))
		p.primary.set(nil)
		if _, err := p.send(5*time.Second, "name", text("a")); err == nil || len(p.Status()) != 2 {
			t.Errorf("got %v: an entity that is throttled was forgotten", err)
		}
	})
}

// If the secondary does not work, all queues fail alike, which is reported once.
func TestPassFailsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secondary := newBus(queues...)
		secondary.set(always(refuse))
		s := newSyphon(t, newBus(), secondary, queues, nil)
		defer s.Close(t.Context())
		r, err := s.Pass(t.Context())
		if err == nil || strings.Contains(err.Error(), "\n") || !r.More {
			t.Errorf("%+v, %v, want one error and more", r, err)
		}
	})
}

// Run without queues runs until its context ends.
func TestRunWithoutQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSyphon(t, newBus(), newBus(), nil, nil)
		defer s.Close(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if r, err := s.Pass(t.Context()); err != nil || r.More {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// stuck is a namespace whose connections take as long to close as they may.
type stuck struct{ *bus }

func (s stuck) Connect() (relay.Connection, error) {
	c, err := s.bus.Connect()
	return stuckConn{c}, err
}

type stuckConn struct{ relay.Connection }

func (c stuckConn) Close(ctx context.Context) error {
	<-ctx.Done()
	return errors.Join(ctx.Err(), c.Connection.Close(ctx))
}

// Close ends with its context, whatever was under way.
func TestCloseKeepsItsDeadline(t *testing.T) {
	for after := 0 * time.Second; after < 30*time.Second; after += 700 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			primary, secondary := newBus("orders"), newBus(queues...)
			s := newSender(t, stuck{primary}, stuck{secondary}, queues, &relay.Options{Interval: atOnce})
			primary.set(always(hang))
			secondary.set(always(hang))
			var sending sync.WaitGroup
			for i := range 3 {
				sending.Go(func() {
					for {
						if _, err := s.Send(context.Background(), "orders", text(fmt.Sprint(i))); errors.Is(err, relay.ErrClosed) {
							return
						}
						s.Send(context.Background(), "missing", text(fmt.Sprint(i)))
					}
				})
			}
			time.Sleep(after)
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			s.Close(ctx)
			if took := time.Since(began); took > 300*time.Millisecond {
				t.Errorf("after %v, Close took %v", after, took)
			}
			sending.Wait()
			if primary.open+secondary.open != 0 {
				t.Errorf("after %v, %d and %d connections are open", after, primary.open, secondary.open)
			}
		})
	}
}
