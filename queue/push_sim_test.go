package queue_test

import (
	"testing"

	"kennel/internal/storetest"
	"kennel/queue"
)

// TestPushLeavesNothing runs publishers and listeners, kept as plain state,
// through random orders of puts, signals, receives, counts, kills, closed gates
// and falling asleep. Signals are late and come twice, but while a listener
// receives them, none is lost; counts are old. Each message must be received
// long before the safety poll. While the gate is closed, no request begins.
func TestPushLeavesNothing(t *testing.T) {
	t.Parallel()
	all := storetest.Simulate(t, storetest.Scale(500, 10_000), func(run *storetest.Simulation) {
		r := queue.RunOrder(run.Seed)
		if r.Requested > 0 {
			run.Errorf("%d requests began at a closed gate", r.Requested)
		}
		if r.Left > 0 || r.TooLate {
			run.Errorf("%d messages were left, one was received %v after it was visible", r.Left, r.Latest)
		}
		run.Count("listeners that fell asleep", r.Slept)
		run.Count("puts that waited for their signal", r.Hushed)
		run.Count("messages that waited at the gate", r.Held)
		run.Max("seconds until a message was received", r.Latest.Seconds())
	})
	t.Logf("figure: messages left to the safety poll, in random orders of publishing, signals and falling asleep (%d orders) | 0 | 0", all.Runs)
	t.Logf("the latest was received %.1f s after it was visible", all.MaxOf("seconds until a message was received"))
	all.Want("listeners that fell asleep", 1)
	all.Want("puts that waited for their signal", 0.1)
	all.Want("messages that waited at the gate", 0.1)
}
