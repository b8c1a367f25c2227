package relay_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

func TestBacklogSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, relay.Options{Interval: -1})
		defer p.close(t)
		s := p.syphon(nil)
		defer s.Close(t.Context())
		sample := func() relay.Backlog {
			b, err := s.Backlog(t.Context())
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
		p.secondary.set(func(_, queue string) fault {
			if queue == queues[0] {
				return denied
			}
			return none
		})
		want, got := int64(0), int64(0)
		for _, q := range queues[1:] {
			n, _ := p.secondary.left(q)
			want += int64(n)
		}
		b, err := s.Backlog(t.Context())
		for _, w := range b.Entities {
			got += w.Messages
		}
		if err == nil || !b.Partial || got != want {
			t.Errorf("%+v, %v, want the %d messages of the other queues", b, err, want)
		}
		time.Sleep(time.Minute)
	})
}

func TestBacklogSampleIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, secondary := newBus("orders"), newBus(queues...)
		primary.set(always(refuse))
		x := relay.NewSender(primary, secondary, queues[:1], &relay.Options{Interval: -1})
		defer x.Close(t.Context())
		for i := range 1100 {
			if _, err := x.Send(t.Context(), "orders", text(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		s := relay.NewSyphon(primary, secondary, queues[:1], nil)
		defer s.Close(t.Context())
		if b, err := s.Backlog(t.Context()); err != nil || !b.Partial || b.Entities[0].Messages != 1000 {
			t.Errorf("%+v, %v, want 1000 messages and more", b, err)
		}
	})
}
