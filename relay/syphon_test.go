package relay_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

// fill puts messages for an entity into the backlog.
func (p *pair) fill(t *testing.T, entity string, messages ...*relay.Message) {
	t.Helper()
	p.primary.set(always(refuse))
	for _, m := range messages {
		if r, err := p.send(time.Minute, entity, m); err != nil || !r.Backlog {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	p.primary.set(nil)
}

func (p *pair) syphon(o *relay.Options) *relay.Syphon {
	return newSyphon(p.t, p.primary, p.secondary, queues, o)
}

// drain runs a pass that must not fail.
func drain(t *testing.T, s *relay.Syphon) relay.Result {
	t.Helper()
	r, err := s.Pass(context.Background())
	if err != nil {
		t.Error(err)
	}
	return r
}

func numbered(n int, prefix, session string) []*relay.Message {
	all := make([]*relay.Message, n)
	for i := range all {
		all[i] = inSession(fmt.Sprintf("%s%03d", prefix, i), session)
	}
	return all
}

// inOrder reports whether the first copies of the messages of a prefix came in
// order, and how many there are.
func inOrder(all []*relay.Message, prefix string) (n int, ok bool) {
	seen, last := make(map[string]bool), ""
	ok = true
	for _, m := range all {
		id := m.Properties.MessageID.(string)
		if !strings.HasPrefix(id, prefix) || seen[id] {
			continue
		}
		seen[id] = true
		ok = ok && id > last
		last = id
	}
	return len(seen), ok
}

// TestCopiesAreReported: a message that was sent and could not be completed is
// sent again, and counts as a copy.
func TestCopiesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.fill(t, "orders", text("a"), text("b"))
		s := p.syphon(nil)
		defer s.Close(t.Context())
		p.secondary.set(func(op, _ string) fault {
			if op == "settle" {
				return drop
			}
			return none
		})
		if r, _ := s.Pass(t.Context()); r.Moved != 2 || r.Unsettled != 2 {
			t.Errorf("%+v, want 2 moved and not settled", r)
		}
		p.secondary.set(nil)
		time.Sleep(lockTime)
		if r, err := s.Pass(t.Context()); err != nil || r.Moved != 2 || r.Unsettled != 0 {
			t.Errorf("%+v, %v, want 2 moved again", r, err)
		}
		if got := p.primary.got("orders"); len(got) != 4 || len(ids(got)) != 2 {
			t.Errorf("%d messages arrived, want each twice", len(got))
		}
	})
}

// TestLockedMessagesAreNotDrained: a queue is not drained while another syphon
// has messages of it.
func TestLockedMessagesAreNotDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.fill(t, "orders", numbered(3, "a", "same")...) // of one session, so in one queue
		c, _ := p.secondary.Connect()
		defer c.Close(t.Context())
		for _, q := range queues {
			within, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := c.Receive(within, q, 3); err != nil {
				t.Fatal(err)
			}
			cancel()
		}
		peeking := p.syphon(nil)
		defer peeking.Close(t.Context())
		if r, err := peeking.PassAndPeek(t.Context()); err != nil || r != (relay.Result{More: true}) {
			t.Errorf("%+v, %v while another syphon has all messages, want only that there are more", r, err)
		}
		p.fill(t, "other", numbered(3, "b", "same")...)
		drained := 0
		s := p.syphon(&relay.Options{OnEvent: func(e relay.Event) {
			if e.Kind == relay.Drained {
				drained++
			}
		}})
		defer s.Close(t.Context())
		if r, err := s.Pass(t.Context()); err != nil || r.Moved != 3 || !r.More || drained != 0 {
			t.Errorf("%+v, %v, drained %d times while another syphon has messages, want 3 moved and more", r, err, drained)
		}
		time.Sleep(lockTime)
		if r, err := s.Pass(t.Context()); err != nil || r.Moved != 3 || r.More || drained != 1 {
			t.Errorf("%+v, %v, drained %d times after that, want 3 moved", r, err, drained)
		}
		if r, err := peeking.PassAndPeek(t.Context()); err != nil || r != (relay.Result{}) || drained != 1 {
			t.Errorf("%+v, %v, drained %d times in an empty backlog, want nothing", r, err, drained)
		}
	})
}

func TestFailureMode21SessionsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		for _, name := range []string{"a", "b", "c", "d"} {
			p.fill(t, "orders", numbered(250, name, name)...)
		}
		p.fill(t, "other", text("x"))
		drained := 0
		s := p.syphon(&relay.Options{OnEvent: func(e relay.Event) {
			if e.Kind == relay.Drained {
				drained++
			}
		}})
		defer s.Close(t.Context())
		if r := drain(t, s); r.Moved != 1001 || r.More {
			t.Errorf("%+v, want 1001 moved", r)
		}
		if drained == 0 {
			t.Error("the end of the backlog was not reported")
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			if n, ok := inOrder(p.primary.got("orders"), name); n != 250 || !ok {
				t.Errorf("session %s: %d messages, in order: %v", name, n, ok)
			}
		}
		for _, m := range p.primary.got("orders") {
			if m.Properties.GroupID == nil || *m.Properties.GroupID != m.Properties.MessageID.(string)[:1] {
				t.Fatalf("%v lost its session", m.Properties.MessageID)
			}
		}
	})
}

func TestFailureMode12TwoSyphons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.fill(t, "orders", numbered(400, "a", "a")...)
		p.fill(t, "orders", numbered(400, "b", "b")...)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{}, 2)
		for range 2 {
			s := p.syphon(nil)
			go func() {
				s.Run(ctx)
				s.Close(context.Background())
				done <- struct{}{}
			}()
		}
		time.Sleep(2 * time.Minute)
		cancel()
		<-done
		<-done
		for _, name := range []string{"a", "b"} {
			if n, ok := inOrder(p.primary.got("orders"), name); n != 400 || !ok {
				t.Errorf("session %s: %d messages, in order: %v", name, n, ok)
			}
		}
		if n := len(p.primary.got("orders")); n != 800 {
			t.Errorf("%d messages were sent, want 800", n)
		}
	})
}

func TestFailureMode14SlowTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.fill(t, "orders", numbered(50, "a", "a")...)
		p.primary.slow(4 * time.Second)
		s, other := p.syphon(nil), p.syphon(nil)
		defer s.Close(t.Context())
		defer other.Close(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); other.Run(ctx) }()
		s.Run(ctx)
		<-done
		if n := len(p.primary.got("orders")); n != 50 {
			t.Errorf("%d messages were sent, want 50", n)
		}
	})
}

// A target that fails is left alone, delays no other, and no message of it is
// dead-lettered.
func TestFailureMode13TargetFails(t *testing.T) {
	for _, f := range []fault{refuse, hang, busy, denied, full} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, &relay.Options{Interval: atOnce})
			defer p.close(t)
			var many []*relay.Message
			for i := range 110 {
				many = append(many, text(fmt.Sprint(i)))
			}
			p.fill(t, "orders", many...)
			p.fill(t, "other", text("x"))
			p.primary.set(onlyAt("orders", f))
			before := len(p.primary.sends("orders"))
			s := p.syphon(nil)
			defer s.Close(t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); s.Run(ctx) }()
			const outage = 4 * time.Minute
			time.Sleep(outage)
			if len(p.primary.got("other")) != 1 {
				t.Errorf("%v: the other entity waits", f)
			}
			if n := len(p.primary.sends("orders")) - before; n > 40+16*3 {
				t.Errorf("%v: %d attempts in %v", f, n, outage)
			}
			p.primary.set(nil)
			time.Sleep(3 * time.Minute)
			cancel()
			<-done
			if n := len(ids(p.primary.got("orders"))); n != 110 {
				t.Errorf("%v: %d messages arrived, want 110", f, n)
			}
			for _, q := range queues {
				if active, dead := p.secondary.left(q); active != 0 || dead != 0 {
					t.Errorf("%v: %s holds %d messages and %d dead letters", f, q, active, dead)
				}
			}
		})
	}
}

// While a target fails, a syphon locks few messages in vain.
func TestLongOutageLocksFewMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 1500
		primary, secondary := newBus("orders"), newBus(queues...)
		primary.set(always(refuse))
		x := newSender(t, primary, secondary, queues[:1], &relay.Options{Interval: atOnce})
		defer x.Close(t.Context())
		for i := range messages {
			if _, err := x.Send(t.Context(), "orders", text(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		s := newSyphon(t, primary, secondary, queues[:1], nil)
		defer s.Close(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		s.Run(ctx)
		locked := 0
		for _, m := range secondary.entities[queues[0]].messages {
			locked += m.count
		}
		// Nine passes with a batch and one with all of them, every 20 s or more.
		const bar = 20 * 60 / 20 * (9*100 + 1100) / 10
		if locked > bar {
			t.Errorf("%d messages were locked in vain in 20 minutes, more than %d", locked, bar)
		}
		t.Logf("figure: messages of a backlog queue locked in vain in 20 minutes of outage | %d | ≤ %d", locked, bar)
		primary.set(nil)
		time.Sleep(31 * time.Second) // the target is left alone for up to 30 s
		drain(t, s)
		if r := drain(t, s); r.More || len(primary.got("orders")) != messages {
			t.Errorf("%+v, %d messages arrived", r, len(primary.got("orders")))
		}
	})
}

// The sessions before an unreadable message are moved, those behind it wait for
// an operator: an earlier message may be where the syphon cannot read.
func TestUnreadableMessageHoldsOnlySessionsBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		poison := inSession("p", "s")
		poison.ApplicationProperties = map[string]any{"poison": true}
		p.fill(t, "orders", inSession("a", "s"), inSession("b", "s"), poison, inSession("c", "s"))
		s := p.syphon(nil)
		defer s.Close(t.Context())
		pass := func() (moved int64) {
			for range 5 {
				moved += drain(t, s).Moved
				time.Sleep(lockTime)
			}
			return moved
		}
		if n := pass(); n != 2 {
			t.Errorf("%d messages were moved, want the 2 before the unreadable one", n)
		}
		for _, q := range queues {
			p.secondary.delete(q, "p")
		}
		if n := pass(); n != 1 {
			t.Errorf("%d messages were moved after the unreadable one was deleted, want 1", n)
		}
		if n, ok := inOrder(p.primary.got("orders"), ""); n != 3 || !ok {
			t.Errorf("%d messages, in order: %v", n, ok)
		}
	})
}

func TestUnreadableMessageIsIsolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		poison := text("p")
		poison.ApplicationProperties = map[string]any{"poison": true}
		p.fill(t, "orders", text("a"), poison, text("b"), text("c"))
		s := p.syphon(nil)
		defer s.Close(t.Context())
		for range 5 {
			drain(t, s)
			time.Sleep(lockTime)
		}
		var got []string
		for id := range ids(p.primary.got("orders")) {
			got = append(got, id)
		}
		slices.Sort(got)
		if fmt.Sprint(got) != "[a b c]" {
			t.Errorf("moved %v, want all but the unreadable one", got)
		}
	})
}

func TestStoppedSyphonUnlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.fill(t, "orders", numbered(100, "a", "a")...)
		s := p.syphon(nil)
		defer s.Close(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		r, err := s.Pass(ctx)
		if err != nil || !r.More || r.Moved == 0 || r.Moved == 100 {
			t.Fatalf("%+v, %v, want some moved and more to do", r, err)
		}
		if r := drain(t, s); r.More { // at once: no lock is left
			t.Errorf("%+v", r)
		}
		if n := len(p.primary.got("orders")); n != 100 {
			t.Errorf("%d messages were sent, want 100", n)
		}
		if n, ok := inOrder(p.primary.got("orders"), "a"); n != 100 || !ok {
			t.Errorf("%d messages, in order: %v", n, ok)
		}
	})
}
