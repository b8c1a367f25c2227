package relay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

// The failure modes that need a few lines each. The others are in the tests of
// their subject, and those that need the SDK in its adapter.

// The primary stores a message and its answer is lost. Each attempt has the same
// message ID, so duplicate detection leaves one copy.
func TestFailureMode04AnswerLost(t *testing.T) {
	for _, f := range []fault{storeDrop, storeHang} {
		for _, dedup := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, &relay.Options{Interval: new(10 * time.Second)})
				defer p.close(t)
				p.primary.dedup = dedup
				p.primary.set(always(f))
				const messages = 20
				for i := range messages {
					if _, err := p.send(time.Minute, "orders", text(fmt.Sprint(i))); err != nil {
						t.Fatal(err)
					}
				}
				p.primary.set(nil)
				s := p.syphon(nil)
				defer s.Close(t.Context())
				r := drain(t, s)
				got := p.primary.got("orders")
				copies, bound := len(got)-messages, int(p.Stats().Ambiguous+r.Ambiguous+r.Unsettled)
				if dedup {
					bound = 0
				}
				if len(ids(got)) != messages || copies > bound {
					t.Errorf("%v, detection %v: %d messages arrived and %d copies, want %d and at most %d", f, dedup, len(ids(got)), copies, messages, bound)
				}
				t.Logf("figure: copies beyond the first, primary does %v, duplicate detection %v | %d | ≤ %d reported", f, dedup, copies, bound)
			})
		}
	}
}

// Both namespaces are down: the caller keeps its message and both causes, and
// the primary is still pinged.
func TestFailureMode09BothDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.primary.set(always(refuse))
		p.secondary.set(always(full))
		for range 2 { // also a send that only tries the backlog
			_, err := p.send(3*time.Second, "orders", text("a"))
			failure, ok := errors.AsType[*relay.SendError](err)
			if !ok || failure.Class != relay.Unavailable || !errors.Is(err, context.DeadlineExceeded) ||
				!strings.Contains(err.Error(), "primary: unavailable: connection refused") || !strings.Contains(err.Error(), "secondary: full: quota") {
				t.Errorf("got %v, want the causes of both and the deadline", err)
			}
		}
		p.secondary.set(always(denied)) // final, so the caller need not wait
		time.Sleep(time.Second)         // but the last attempts have just failed
		began := time.Now()
		_, err := p.send(3*time.Second, "orders", text("a"))
		if failure, ok := errors.AsType[*relay.SendError](err); !ok || failure.Primary == nil || failure.Secondary == nil || time.Since(began) > 100*time.Millisecond {
			t.Errorf("got %v after %v, want both causes at once", err, time.Since(began))
		}
		p.primary.set(nil)
		time.Sleep(21 * time.Second)
		if r, err := p.send(3*time.Second, "orders", text("a")); err != nil || r.Backlog {
			t.Errorf("after the primary is back: %+v, %v", r, err)
		}
	})
}

// A syphon that lost a lock leaves its message to another one.
func TestFailureMode14LockLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.fill(t, "orders", numbered(20, "a", "a")...)
		p.primary.slow(4 * time.Second)
		p.secondary.set(func(op, _ string) fault {
			if op == "renew" {
				return internal
			}
			return none
		})
		s := p.syphon(nil)
		defer s.Close(t.Context())
		r := drain(t, s)
		if r.LockLost == 0 || r.Moved == 20 {
			t.Errorf("%+v, want a lost lock", r)
		}
		p.secondary.set(nil)
		time.Sleep(lockTime)
		r.Moved += drain(t, s).Moved
		if n, ok := inOrder(p.primary.got("orders"), "a"); n != 20 || !ok || len(p.primary.got("orders")) != 20 || r.Moved != 20 {
			t.Errorf("%d messages in order %v, %d sent, %d moved, want 20 of each", n, ok, len(p.primary.got("orders")), r.Moved)
		}
	})
}

// deadLetters returns the reasons of all dead letters.
func (p *pair) deadLetters() []string {
	var all []string
	for _, q := range queues {
		all = append(all, p.secondary.entities[q].reasons...)
	}
	return all
}

// A message that its target can never take is dead-lettered with the reason.
func TestFailureMode15TargetMissing(t *testing.T) {
	for entity, want := range map[string]string{"gone": `TargetMissing: for "gone": not found`, "other": `Invalid: for "other": invalid`} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, &relay.Options{Interval: atOnce})
			defer p.close(t)
			p.fill(t, entity, text("a"))
			p.fill(t, "orders", text("b"))
			p.primary.set(onlyAt("other", bad))
			var events []relay.Event
			s := p.syphon(&relay.Options{OnEvent: func(e relay.Event) {
				if e.Kind == relay.DeadLettered {
					events = append(events, e)
				}
			}})
			defer s.Close(t.Context())
			if r := drain(t, s); r.DeadLettered != 1 || r.Moved != 1 || r.More {
				t.Errorf("%+v, want a dead letter and one moved", r)
			}
			if all := p.deadLetters(); len(all) != 1 || !strings.HasPrefix(all[0], want) {
				t.Errorf("the reasons are %q, want %q", all, want)
			}
			if len(events) != 1 || events[0].Entity != entity || events[0].Cause == nil {
				t.Errorf("events %+v", events)
			}
		})
	}
}

// A message in the backlog without or with a broken envelope is dead-lettered.
func TestFailureMode16BrokenEnvelope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		c, _ := p.secondary.Connect()
		broken := []*relay.Message{
			text("a"),
			property("x-ms-path", int64(5)),
			property("x-ms-path", "no such name"),
			with(func(m *relay.Message) {
				m.ApplicationProperties = map[string]any{"x-ms-path": "orders", "x-ms-sessionid": 5}
			}),
			with(func(m *relay.Message) {
				m.ApplicationProperties = map[string]any{"x-ms-path": "orders", "x-ms-timetolive": int64(5)}
			}),
		}
		for _, m := range broken {
			if err := c.Send(t.Context(), queues[0], m); err != nil {
				t.Fatal(err)
			}
		}
		c.Close(t.Context())
		s := p.syphon(nil)
		defer s.Close(t.Context())
		if r := drain(t, s); r.DeadLettered != int64(len(broken)) || r.Moved != 0 {
			t.Errorf("%+v, want %d dead letters", r, len(broken))
		}
		for _, reason := range p.deadLetters() {
			if !strings.HasPrefix(reason, "InvalidEnvelope: ") {
				t.Errorf("the reason is %q", reason)
			}
		}
	})
}

const scheduledTime = "x-opt-scheduled-enqueue-time"

// A schedule is restored, or left out if it is over by then.
func TestFailureMode19Scheduled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		at := map[string]time.Time{"soon": time.Now().Add(time.Minute), "late": time.Now().Add(time.Hour)}
		for id, at := range at {
			m := text(id)
			m.Header = header(2 * time.Hour)
			m.MessageAnnotations = map[any]any{scheduledTime: at}
			p.fill(t, "orders", m)
		}
		for _, q := range queues {
			for _, m := range p.secondary.got(q) {
				if _, ok := m.MessageAnnotations[scheduledTime]; ok {
					t.Error("the backlog queue would keep the message back")
				}
			}
		}
		time.Sleep(10 * time.Minute)
		s := p.syphon(nil)
		defer s.Close(t.Context())
		drain(t, s)
		for _, m := range p.primary.got("orders") {
			got, ok := m.MessageAnnotations[scheduledTime]
			id, ttl := m.Properties.MessageID.(string), m.Header.TTL
			if late := id == "late"; ok != late || late && got != at[id] {
				t.Errorf("%s has the schedule %v", id, got)
			}
			want := 2 * time.Hour // from the schedule on
			if id == "soon" {
				want -= 9 * time.Minute
			}
			if ttl > want || ttl < want-time.Second {
				t.Errorf("%s has the time to live %v, want %v", id, ttl, want)
			}
		}
		if n := len(p.primary.got("orders")); n != 2 {
			t.Errorf("%d messages arrived, want 2", n)
		}
	})
}

// The time in the backlog counts for the time to live. A message that expired is
// deleted and never delivered.
func TestFailureMode20Expired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		began := time.Now()
		for id, ttl := range map[string]time.Duration{"brief": time.Minute, "long": time.Hour, "endless": 0} {
			m := text(id)
			m.Header = header(ttl)
			p.fill(t, "orders", m)
		}
		time.Sleep(10 * time.Minute)
		s := p.syphon(nil)
		defer s.Close(t.Context())
		waited := time.Since(began)
		if r := drain(t, s); r.Expired != 1 || r.Moved != 2 || r.DeadLettered != 0 {
			t.Errorf("%+v, want 1 expired and 2 moved", r)
		}
		if all := p.deadLetters(); len(all) != 0 {
			t.Errorf("dead letters %q", all)
		}
		for _, m := range p.primary.got("orders") {
			want := time.Duration(0)
			if m.Properties.MessageID == "long" {
				want = time.Hour - waited
			}
			if off := m.Header.TTL - want; off.Abs() > time.Second {
				t.Errorf("%v has the time to live %v, want %v", m.Properties.MessageID, m.Header.TTL, want)
			}
		}
	})
}
