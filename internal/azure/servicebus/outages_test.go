package servicebus

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
	"kennel/relay"
)

// outageFault is a way in which the primary fails.
type outageFault struct {
	name   string
	faults []devbus.Fault
	ending ending
	class  relay.Class // of answered
	unseen bool        // by pings
}

// outages are the troubles that the primary can have.
var outages = []outageFault{

	{"dial refused", []devbus.Fault{{Kind: devbus.Disconnect}, {Kind: devbus.RefuseDial}}, failsOver, 0, false},
	{"black hole", []devbus.Fault{{Kind: devbus.Disconnect}, {Kind: devbus.BlackHole}}, failsOver, 0, false},
	{"frozen", []devbus.Fault{{Kind: devbus.Freeze}, {Kind: devbus.BlackHole}}, failsOver, 0, false},
	{"closed", []devbus.Fault{{Kind: devbus.CloseBefore, Entity: orders}}, failsOver, 0, true},
	{"stored, closed", []devbus.Fault{{Kind: devbus.CloseAfter, Entity: orders}}, failsOver, 0, true},
	{"silent", []devbus.Fault{{Kind: devbus.Silent, Entity: orders}}, failsOver, 0, true},
	{"stored, silent", []devbus.Fault{{Kind: devbus.SilentAfter, Entity: orders}}, failsOver, 0, true},
	{"stored, answered too late", []devbus.Fault{{Kind: devbus.Slow, Entity: orders, Delay: 8 * time.Second}}, failsOver, 0, true},
	{"internal error", []devbus.Fault{{Kind: devbus.Reject, Entity: orders}}, failsOver, 0, true},
	{"detached", []devbus.Fault{{Kind: devbus.Detach, Entity: orders}}, failsOver, 0, true},
	{"stored, detached", []devbus.Fault{{Kind: devbus.DetachAfter, Entity: orders}}, failsOver, 0, true},
	{"released", []devbus.Fault{{Kind: devbus.Release, Entity: orders}}, failsOver, 0, true},
	{"modified", []devbus.Fault{{Kind: devbus.Modify, Entity: orders}}, failsOver, 0, true},
	{"attach refused", []devbus.Fault{{Kind: devbus.Disconnect, Entity: orders}, {Kind: devbus.RefuseAttach, Entity: orders}}, failsOver, 0, false},
	{"no tokens", []devbus.Fault{{Kind: devbus.Disconnect}, {Kind: devbus.CBS, Status: 503}}, failsOver, 0, false},

	{"slow", []devbus.Fault{{Kind: devbus.Slow, Entity: orders, Delay: time.Second}}, harmless, 0, false},
	{"no heartbeats", []devbus.Fault{{Kind: devbus.DropHeartbeats}}, harmless, 0, false},
	{"clock ahead", []devbus.Fault{{Kind: devbus.ClockSkew, Delay: 10 * time.Minute}}, harmless, 0, false},
	{"full", []devbus.Fault{{Kind: devbus.Full, Entity: orders}}, answered, relay.Full, false},
	{"deleted", []devbus.Fault{{Kind: devbus.DeleteEntity, Entity: orders}}, answered, relay.NotFound, false},
	{"unauthorized", []devbus.Fault{{Kind: devbus.Disconnect, Entity: orders}, {Kind: devbus.CBS, Status: 401}}, answered, relay.Denied, false},
	{"busy", []devbus.Fault{{Kind: devbus.Reject, Entity: orders, Condition: "com.microsoft:server-busy"}}, throttled, 0, false},
}

// TestOutages cuts a sender of 80 messages/s off its primary for 45 s, in every
// way, while a syphon runs and crashes.
func TestOutages(t *testing.T) {
	var mu sync.Mutex
	sum := findings{}
	t.Run("all", func(t *testing.T) {
		for _, tt := range outages {
			for _, interval := range []time.Duration{0, 10 * time.Second, time.Minute} {
				if interval != 10*time.Second && tt.ending != failsOver {
					continue
				}
				t.Run(fmt.Sprint(tt.name, "/", interval), func(t *testing.T) {
					if !sampled[tt.name] || interval != 10*time.Second {
						storetest.OnlyInProve(t)
					}
					t.Parallel()
					f := outage{outageFault: tt, interval: interval, lasts: 45 * time.Second, every: outageEvery()}.run(t)
					mu.Lock()
					defer mu.Unlock()
					sum.add(f, interval)
				})
			}
		}
	})
	t.Logf("figure: messages lost in outages of 45 s at 80/s (%d outages, %d accepted, %d moved by syphons, which crashed %d times) | %d | 0",
		sum.runs, sum.accepted, sum.moved, sum.crashes, sum.lost)
	t.Logf("figure: duplicates in these outages (%d) | %.0f %% of the reported bound | ≤ 100 %%", sum.duplicates, 100*float64(sum.duplicates)/float64(max(1, sum.bound)))
	t.Logf("figure: the latest failover in these outages, after the interval | %v | ≤ 6 s (an attempt and a second)", sum.failover.Round(time.Millisecond))
	t.Logf("figure: the latest failback after these outages | %v | ≤ 21 s, or 26 s if pings do not notice", sum.failback.Round(time.Millisecond))
	t.Logf("figure: the slowest 99 %% of sends while failed over in these outages | %v | ≤ 50 ms", sum.over)
}

// sampled are the outages of make test, beside those of the failure modes.
var sampled = map[string]bool{"stored, silent": true, "full": true}

// TestOutagesOfMinutes end after the longest of the intervals above.
func TestOutagesOfMinutes(t *testing.T) {
	storetest.OnlyInProve(t)
	for _, name := range []string{"dial refused", "frozen", "silent", "stored, detached"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outage{outageFault: named(name), interval: time.Minute, lasts: 90 * time.Second, every: 200 * time.Millisecond}.run(t)
		})
	}
}

// outageEvery is how often each producer sends.
func outageEvery() time.Duration { return time.Duration(storetest.Scale(1200, 100)) * time.Millisecond }

// named returns an outage by its name.
func named(name string) outageFault {
	for _, tt := range outages {
		if tt.name == name {
			return tt
		}
	}
	panic(name)
}

// TestOutagesWithDuplicateDetection: an entity that detects duplicates gets
// none.
func TestOutagesWithDuplicateDetection(t *testing.T) {
	storetest.OnlyInProve(t) // in make test: TestFailureMode04AnswerLost
	for _, name := range []string{"stored, closed", "stored, silent", "stored, detached", "stored, answered too late"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outage{outageFault: named(name), interval: 10 * time.Second, lasts: 45 * time.Second, every: outageEvery(), dedup: true}.run(t)
		})
	}
}

// TestOutagesKeepSessionsInOrder: with the drain barrier the messages of a
// session arrive in order, although syphons crash.
func TestOutagesKeepSessionsInOrder(t *testing.T) {
	storetest.OnlyInProve(t)
	for _, name := range []string{"dial refused", "stored, silent", "stored, closed"} {
		t.Run(name, func(t *testing.T) {
			if name != "stored, closed" {
				storetest.OnlyInProve(t)
			}
			t.Parallel()
			outage{outageFault: named(name), interval: 0, lasts: time.Duration(storetest.Scale(15, 30)) * time.Second, producers: 4, sessions: 2, every: 2 * outageEvery(), crashEvery: storetest.Scale(50, 300)}.run(t)
		})
	}
}

// TestOutageOfOneEntity leaves the sends to another one as fast as they were.
// It has no outage with detached links: the SDK attaches them under a lock, and
// virtual time does not advance while a goroutine waits for a lock.
func TestOutageOfOneEntity(t *testing.T) {
	storetest.OnlyInProve(t)
	for _, name := range []string{"silent", "internal error", "stored, closed", "busy", "full"} {
		t.Run(name, func(t *testing.T) {
			if name != "silent" {
				storetest.OnlyInProve(t)
			}
			t.Parallel()
			f := outage{outageFault: named(name), interval: 10 * time.Second, lasts: time.Duration(storetest.Scale(30, 45)) * time.Second, roundTrip: 10 * time.Millisecond, every: outageEvery()}.run(t)
			if f.otherOver > f.otherHealthy*11/10 {
				t.Errorf("99 %% of the sends to the other entity took %v, and %v during the outage", f.otherHealthy, f.otherOver)
			}
		})
	}
}

// TestOutageOfADay sends a message in five seconds during an outage of a day, and then
// drains the backlog.
func TestOutageOfADay(t *testing.T) {
	storetest.OnlyInProve(t)
	const messages, every = 24 * 60 * 60 / 5, 5 * time.Second
	withPair(t, nil, func(t *testing.T, p *pair) {
		p.primary.Fail(devbus.Fault{Kind: devbus.RefuseDial})
		s := p.sender(t)
		for i := range messages {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			receipt, err := s.Send(ctx, orders, text(strconv.Itoa(i)))
			if cancel(); err != nil || !receipt.Backlog {
				t.Fatalf("message %d: to the backlog %t, error %v", i, receipt.Backlog, err)
			}
			time.Sleep(every)
		}
		p.primary.Heal()
		syphon := newSyphon(t, p.p, p.s, p.queues, nil)
		defer syphon.Close(t.Context())
		result, err := syphon.Pass(t.Context())
		if err != nil || result.Moved != messages || result.More {
			t.Errorf("the syphon moved %+v, error %v", result, err)
		}
		if got := p.primary.Stats().Stored; got != messages || ready(t, p.primary) != messages {
			t.Errorf("%d messages were stored, want %d", got, messages)
		}
	})
}
