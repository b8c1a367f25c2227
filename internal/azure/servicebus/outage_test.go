package servicebus

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
)

// During an outage a process sends few requests, so that thousands of instances
// do not prolong it. The SDK alone renews tokens every five minutes, and
// repeats a failed renewal dozens of times per second.
func TestFewRequestsDuringOutage(t *testing.T) {
	outage := time.Duration(storetest.Scale(10, 60)) * time.Minute
	for _, fault := range []devbus.Fault{
		{Kind: devbus.RefuseDial}, {Kind: devbus.BlackHole}, {Kind: devbus.CBS, Status: 503}, {Kind: devbus.CBS, Status: 500},
		{Kind: devbus.Detach}, {Kind: devbus.Detach, Condition: "com.microsoft:server-busy"}, {Kind: devbus.RefuseAttach, Condition: "com.microsoft:timeout"},
	} {
		t.Run(fmt.Sprint(fault.Kind, fault.Status, fault.Condition), func(t *testing.T) {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				var dials atomic.Int64
				s := openSignals(t, counted(inProcess(b), &dials))
				r, _ := listenUp(t, s)
				mustPublish(t, s)
				before, dialsBefore := b.Stats(), dials.Load()
				b.Fail(fault)
				if fault.Kind == devbus.RefuseDial || fault.Kind == devbus.BlackHole {
					b.DropConnections()
				}
				for began := time.Now(); time.Since(began) < outage; time.Sleep(10 * time.Second) {
					after := b.Stats()
					requests := max(dials.Load()-dialsBefore, after.Faults-before.Faults, after.Attached-before.Attached)
					if atMost := int64(outage / time.Second); requests > atMost {
						t.Fatalf("%d requests in %v of outage, want at most %d in %v", requests, time.Since(began), atMost, outage)
					}
				}
				if ups := r.read().ups; ups > 3 {
					t.Errorf("it was up %d times during the outage, want 0", ups)
				}
				b.Heal()
				await(t, 3*time.Minute, "up again", r.isUp)
			})
		})
	}
}

// A stop during an outage is quick and leaves no goroutine, as listen and
// openSignals check. The SDK may wait on a silent connection even if its
// context ends. Here the connection freezes while the SDK reconnects.
func TestStopDuringOutage(t *testing.T) {
	step := time.Duration(storetest.Scale(80, 10)) * time.Millisecond
	for freeze := 20 * time.Millisecond; freeze <= 140*time.Millisecond; freeze += step {
		for _, stopAfter := range []time.Duration{0, time.Second, time.Minute} {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				s := openSignals(t, distant(t, b, 50*time.Millisecond))
				r, _ := listenUp(t, s)
				mustPublish(t, s)
				b.Fail(devbus.Fault{Kind: devbus.Detach, Condition: "amqp:link:detach-forced", Times: 1})
				time.Sleep(freeze)
				b.Fail(devbus.Fault{Kind: devbus.Freeze})
				time.Sleep(stopAfter)
				if stopAfter == time.Minute && len(r.read().reasons) == 0 {
					t.Errorf("frozen %v after a detach: not down within %v", freeze, stopAfter)
				}
			})
		}
	}
}
