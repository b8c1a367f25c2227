package parts

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/instances"
)

// TestFailedOver: a new process begins on trial what failed over elsewhere.
func TestFailedOver(t *testing.T) {
	live := make([]instances.Instance, 2)
	instances.RelaySection.Add(&live[0].Report, []instances.RelayEntity{{Entity: "a", State: "failedOver"}, {Entity: "b", State: "suspect"}})
	instances.RelaySection.Add(&live[1].Report, []instances.RelayEntity{{Entity: "c", State: "failedOver"}, {Entity: "d", State: "healthy"}})
	if got := failedOver(live); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("got %v, want a and c", got)
	}
}

// TestStartDuringOutage: ten processes that start after another one has failed
// over for ten seconds, and was killed, read that in its row, and hold no send for
// longer than an attempt and a second.
func TestStartDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newRelayWorld(t, true)
		ctx, kill := contextOf(t)
		var reporting sync.WaitGroup
		reporting.Go(func() { instances.NewReporter(old.Members.Self, old.rows, old.Members.Log).Run(ctx) })
		time.Sleep(40 * time.Second) // the next regular row is half a minute away
		old.failOver(t, "orders")
		time.Sleep(10 * time.Second)
		kill()
		reporting.Wait()
		var sending sync.WaitGroup
		var slow atomic.Int64
		for range 10 {
			w := newRelayWorld(t, true)
			w.Members.Rows = old.rows
			w.primary.fails(silent)
			for i := range 20 {
				sending.Go(func() {
					time.Sleep(time.Duration(i) * 500 * time.Millisecond)
					began := time.Now()
					got := w.sentAs(t, "orders", fmt.Sprint(i))
					took := time.Since(began)
					if got.status != 201 || got.SentTo != "backlog" || took > 6*time.Second {
						t.Errorf("send %d took %v: %+v", i, took, got)
					}
					if took > time.Second {
						slow.Add(1)
					}
				})
			}
		}
		sending.Wait()
		if slow.Load() > 10 {
			t.Errorf("%d sends waited for the primary, want one of each process", slow.Load())
		}
	})
}
