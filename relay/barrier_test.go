package relay_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

func TestFailureMode21SessionFollowsItsBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		send := func(m *relay.Message) bool {
			r, err := p.send(time.Minute, "orders", m)
			if err != nil {
				t.Fatal(err)
			}
			return r.Backlog
		}
		p.primary.set(always(refuse))
		send(inSession("1", "s"))
		p.primary.set(nil)
		time.Sleep(time.Minute)
		if !send(inSession("2", "s")) {
			t.Error("the next message of the session is not in the backlog")
		}
		if send(text("3")) {
			t.Error("a message without a session is in the backlog")
		}
		for _, q := range queues {
			p.secondary.empty(q)
		}
		time.Sleep(time.Second)
		if send(inSession("4", "s")) {
			t.Error("the session is in the backlog, although that is drained")
		}
	})
}

// A message whose send to the backlog is under way is not seen by a peek.
func TestSlowBacklogSendHoldsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.primary.set(always(refuse))
		p.secondary.slow(3 * time.Second)
		for i := range 20 {
			if _, err := p.send(time.Minute, "orders", inSession(fmt.Sprint(i), "s")); err != nil {
				t.Fatal(err)
			}
			if i == 2 {
				p.primary.set(nil)
			}
		}
		if n := len(p.primary.got("orders")); n != 0 {
			t.Errorf("%d messages overtook those in the backlog", n)
		}
	})
}

// A message that goes to the backlog while a peek is under way keeps its
// session there.
func TestPeekMissesNoLaterMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, secondary := newBus("orders"), newBus(queues...)
		s := newSender(t, primary, secondary, queues[:1], &relay.Options{Interval: atOnce})
		defer s.Close(t.Context())
		send := func(m *relay.Message) bool {
			r, err := s.Send(t.Context(), "orders", m)
			if err != nil {
				t.Error(err)
			}
			return r.Backlog
		}
		primary.set(always(refuse))
		send(inSession("1", "a"))
		primary.set(nil)
		secondary.empty(queues[0])
		time.Sleep(time.Minute)
		secondary.answer = time.Second
		go send(inSession("2", "a")) // peeks, and the queue is empty
		time.Sleep(100 * time.Millisecond)
		if !send(inSession("3", "b")) {
			t.Fatal("the message did not wait for the peek")
		}
		time.Sleep(2 * time.Second)
		if !send(inSession("4", "b")) {
			t.Error("message 4 overtook message 3 of its session")
		}
	})
}

// delete deletes the messages of a queue with an ID.
func (b *bus) delete(queue, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.entities[queue]
	s.messages = slices.DeleteFunc(s.messages, func(m *stored) bool { return m.m.Properties.MessageID == id })
}

// empty deletes the messages of a queue.
func (b *bus) empty(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entities[queue].messages = nil
}
