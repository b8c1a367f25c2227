package relay_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

func TestBacklogSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		s := p.syphon(nil)
		defer s.Close(t.Context())
		sample := func() relay.Backlog {
			b, err := s.Backlog(t.Context(), depths{p.secondary, nil})
			if err != nil {
				t.Error(err)
			}
			return b
		}
		if b := sample(); len(b.Entities) != 0 || b.Partial || b.At != time.Now().Add(-5*time.Millisecond) {
			t.Errorf("%+v of an empty backlog", b)
		}
		began := time.Now()
		p.fill(t, "orders", text("a"))
		time.Sleep(time.Minute)
		p.fill(t, "other", text("b"), text("c"))
		p.fill(t, "orders", inSession("d", "s"))
		c, _ := p.secondary.Connect()
		if err := c.Send(t.Context(), queues[0], text("foreign")); err != nil {
			t.Fatal(err)
		}
		c.Close(t.Context())
		both := sample()
		if len(both.Entities) != 2 || both.Partial {
			t.Fatalf("%+v, want two entities", both)
		}
		for i, want := range []relay.Waiting{{Entity: "orders", Messages: 2}, {Entity: "other", Messages: 2}} {
			got := both.Entities[i]
			age := got.Oldest.Sub(began)
			if got.Entity != want.Entity || got.Messages != want.Messages || age < 0 || i == 0 != (age < time.Second) {
				t.Errorf("%+v, %v after the begin, want %+v", got, age, want)
			}
		}
		// Locked messages still wait.
		p.primary.set(always(hang))
		go s.Pass(t.Context())
		time.Sleep(2 * time.Second)
		if b := sample(); len(b.Entities) != 2 || b.Entities[0].Messages != 2 {
			t.Errorf("%+v while the messages are locked", b)
		}
		p.secondary.set(onlyAt(queues[0], denied))
		want, got := int64(0), int64(0)
		for _, q := range queues[1:] {
			n, _ := p.secondary.left(q)
			want += int64(n)
		}
		b, err := s.Backlog(t.Context(), depths{p.secondary, nil})
		for _, w := range b.Entities {
			got += w.Messages
		}
		if err == nil || !b.Partial || got != want {
			t.Errorf("%+v, %v, want the %d messages of the other queues", b, err, want)
		}
		time.Sleep(time.Minute)
	})
}

// depths reports how many messages the queues of a bus hold.
type depths struct {
	*bus
	err error
}

func (d depths) Ensure(context.Context, string) error { return d.err }

func (d depths) Depth(_ context.Context, queue string) (int64, error) {
	if d.err != nil {
		return 0, d.err
	}
	n, _ := d.left(queue)
	return int64(n), nil
}

// TestBacklogSampleOfManyMessages reads no more than 100 of a queue, and counts
// the others by the share of each entity.
func TestBacklogSampleOfManyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, secondary := newBus("orders", "other"), newBus(queues...)
		primary.set(always(refuse))
		x := newSender(t, primary, secondary, queues[:1], &relay.Options{Interval: atOnce})
		defer x.Close(t.Context())
		for i := range 1000 {
			entity := "orders"
			if i%4 == 0 {
				entity = "other"
			}
			if _, err := x.Send(t.Context(), entity, text(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		s := newSyphon(t, primary, secondary, queues[:1], nil)
		defer s.Close(t.Context())
		for _, tt := range []struct {
			err           error
			orders, other int64
		}{
			{nil, 750, 250},
			{fails(relay.Denied, true, "no right to manage"), 75, 25},
		} {
			b, err := s.Backlog(t.Context(), depths{secondary, tt.err})
			if err != nil || b.Partial != (tt.err != nil) || len(b.Entities) != 2 || b.Entities[0].Messages != tt.orders || b.Entities[1].Messages != tt.other {
				t.Errorf("%+v, %v, want %d and %d messages", b, err, tt.orders, tt.other)
			}
		}
	})
}
