package servicebus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
)

// TestSignalsThroughFaults injects random faults, several at a time, and fails
// if a listener does not recover, sends too many requests or stops slowly.
//
// Connections fall silent only in simulations of some minutes, in which nothing
// is published: the SDK connects and renews tokens under a lock, and virtual
// time does not advance while a goroutine waits for a lock.
func TestSignalsThroughFaults(t *testing.T) {
	storetest.Simulate(t, storetest.Scale(4, 60), func(run *storetest.Simulation) {
		s := &simulation{Broker: newBus(run.T), random: rand.New(rand.NewPCG(run.Seed, 0)), kinds: loudFaults, lasts: 30 * time.Minute}
		run.Cleanup(func() { // after Listen and Close
			if run.Failed() {
				run.Log(strings.Join(s.events, "\n"))
			}
		})
		// Four seeds in a row are one of each kind.
		if s.silent = run.Seed%2 == 0; s.silent {
			s.kinds, s.lasts = slices.Concat(loudFaults, []devbus.Kind{devbus.Freeze, devbus.BlackHole}), 270*time.Second
		}
		s.run(run.T, run.Seed%4 < 2)
	})
}

// loudFaults are the faults that a client notices soon.
var loudFaults = []devbus.Kind{
	devbus.RefuseDial, devbus.DropHeartbeats, devbus.CloseBefore, devbus.CloseAfter, devbus.Silent, devbus.SilentAfter,
	devbus.Slow, devbus.Reject, devbus.Full, devbus.Detach, devbus.RefuseAttach, devbus.CBS, devbus.DeleteEntity, devbus.ClockSkew,
	devbus.Disconnect, devbus.DetachAfter, devbus.ExpireTokens,
}

// simulation is a bus with random faults.
type simulation struct {
	*devbus.Broker
	random *rand.Rand
	kinds  []devbus.Kind
	lasts  time.Duration
	silent bool // connections may fall silent
	events []string
}

func (s *simulation) run(t *testing.T, stopEarly bool) {
	var dials atomic.Int64
	r, _ := listen(t, openSignals(t, counted(inProcess(s.Broker), &dials)))
	publisher := openSignals(t, inProcess(s.Broker))
	for began := time.Now(); time.Since(began) < s.lasts; {
		time.Sleep(time.Duration(s.random.Int64N(int64(20 * time.Second))))
		s.events = append(s.events, fmt.Sprintf("%v %s", time.Since(began).Round(time.Millisecond), s.inject()))
		if !s.silent && s.random.IntN(4) == 0 {
			publish(t, publisher) // may fail
		}
	}
	if atMost := int64(s.lasts / (500 * time.Millisecond)); dials.Load() > atMost {
		t.Errorf("it connected %d times, want at most %d", dials.Load(), atMost)
	}
	if !stopEarly {
		s.Heal()
		await(t, 80*time.Second, "received after the faults", func() bool {
			before := len(r.read().received)
			publish(t, publisher)
			time.Sleep(time.Second)
			return r.isUp() && len(r.read().received) > before
		})
	}
}

// inject starts or ends faults and returns a description.
func (s *simulation) inject() string {
	switch s.random.IntN(4) {
	case 0:
		s.Heal()
		return "healed"
	case 1:
		s.DropConnections()
		return "connections dropped"
	}
	conditions := []string{
		"amqp:internal-error", "amqp:link:detach-forced", "com.microsoft:server-busy", "com.microsoft:timeout", "amqp:not-found",
		"com.microsoft:entity-disabled", "amqp:connection:forced", "amqp:resource-limit-exceeded", "amqp:not-allowed",
	}
	statuses := []int{503, 500, 408, 403}
	f := devbus.Fault{
		Kind:      s.kinds[s.random.IntN(len(s.kinds))],
		On:        devbus.Op(1 + s.random.IntN(7)),
		Times:     s.random.IntN(4),
		Condition: conditions[s.random.IntN(len(conditions))],
		Status:    statuses[s.random.IntN(len(statuses))],
		Delay:     time.Duration(s.random.Int64N(int64(10 * time.Second))),
	}
	switch f.Kind {
	case devbus.Disconnect, devbus.CloseBefore, devbus.CloseAfter:
		// The SDK believes that a connection that was closed with server-busy
		// or timeout still works, and reads from it without a pause.
		f.Condition = []string{"", "amqp:connection:forced", "amqp:internal-error"}[s.random.IntN(3)]
	case devbus.DeleteEntity:
		names := subscriptions(s.Broker)
		if len(names) == 0 {
			return "no subscription to delete"
		}
		f.Entity = topic + "/Subscriptions/" + names[0]
	}
	s.Fail(f)
	return fmt.Sprintf("%+v", f)
}
