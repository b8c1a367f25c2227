package localhost

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/cost"
	"kennel/internal/customhandler"
)

// TestCost compares what the model of costs assumes of a Functions host with the
// requests of this one: for messages, and for a day in which a queue is idle. As
// in Azure, it polls an idle queue once a minute at most.
func TestCost(t *testing.T) {
	for _, tt := range []struct {
		name     string
		messages float64
		takes    time.Duration // a message
		idle     float64       // hours
	}{
		{"messages that take no time", 1000, 0, 0},
		{"messages that take seconds", 1000, 3 * time.Second, 0},
		{"an idle day", 0, 0, 24},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newQueues(t)
			for i := range int(tt.messages) {
				store.put(t, "jobs", base(fmt.Sprint("message ", i)))
			}

			done := make(chan struct{}, int(tt.messages))
			l := newListener(store, "jobs", func(context.Context, customhandler.QueueMessage) error {
				time.Sleep(tt.takes)
				done <- struct{}{}
				return nil
			})
			l.settings.maxPollingDelay = time.Minute
			stop := listen(l.run)
			for range int(tt.messages) {
				<-done
			}
			time.Sleep(time.Duration(tt.idle * float64(time.Hour)))
			synctest.Wait()
			stop()
			predicted := tt.messages + cost.Total(cost.HostMessages(tt.messages))
			for _, line := range cost.HostIdle(1, 0, 1) {
				if line.Operation == "receive nothing" { // no scale controller reads the queue here
					predicted += tt.idle * line.Count
				}
			}
			counted := float64(store.Calls())
			off := math.Abs(predicted/counted - 1)
			t.Logf("figure: predicted requests of the Functions host, %s (%.0f of %.0f) | %.1f %% off | ≤ 5 %%", tt.name, predicted, counted, 100*off)
			if off > 0.05 {
				t.Errorf("%s: %.0f requests, %.0f predicted", tt.name, counted, predicted)
			}
		})
	}
}
