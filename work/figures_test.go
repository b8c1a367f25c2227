package work_test

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// TestRequests counts the requests of a batch, from its submission to its
// report, and compares them with those that the batch reports.
func TestRequests(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	for _, tt := range []struct {
		perParcel, items int
		pad              int // so that so many fill a parcel
		maxQueued        float64
		maxAll           float64
	}{
		{100, 4_000, small, 0.03, 0.06},
		{50, 2_000, 750, 0.05, 0.11},
		{250, 100_000, small, 0.01, 0.02}, // 100, and from the 20,000th on 400
	} {
		if tt.items > storetest.Scale(10_000, 100_000) {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			var queued atomic.Int64 // requests for the messages of parcels
			w := newWorld(t, 0, func(store string) func(memory.Call) memory.Fault {
				return func(call memory.Call) memory.Fault {
					if store == "queues" {
						queued.Add(1)
					}
					return memory.Fault{}
				}
			})
			p := w.start(nil, nil)
			o := &order{name: "n", items: someItems("i", tt.items, tt.pad)}
			b, _, err := o.submit(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if each := float64(tt.items) / float64(b.Parcels); math.Abs(each-float64(tt.perParcel)) > 2 {
				t.Errorf("%.1f items a parcel, want %d", each, tt.perParcel)
			}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { p.host(64, nil).run(ctx) })
			w.await(t.Context(), time.Hour)
			stop()
			running.Wait()
			calls := w.calls()
			w.check([]*order{o}, 0)
			if b, err = p.Get(t.Context(), b.ID); err != nil {
				t.Fatal(err)
			}
			all, each := float64(calls)/float64(tt.items), float64(queued.Load())/float64(tt.items)
			t.Logf("figure: requests per item from submission to report, %d items a parcel | %.3f | ≤ %.2f", tt.perParcel, all, tt.maxAll)
			t.Logf("figure: requests per item for the messages of parcels, %d items a parcel | %.3f | ≤ %.2f", tt.perParcel, each, tt.maxQueued)
			off := math.Abs(float64(b.StorageOperations)/float64(calls) - 1)
			t.Logf("figure: requests of a batch that it reports, %d items a parcel (%d of %d) | %.1f %% off | ≤ 1 %%", tt.perParcel, b.StorageOperations, calls, 100*off)
			if all > tt.maxAll || each > tt.maxQueued || off > 0.01 {
				t.Errorf("%.3f and %.3f requests per item, and %.2f %% off", all, each, 100*off)
			}
		})
	}
}

// seconds returns how long do takes.
func seconds(do func()) float64 {
	began := time.Now()
	do()
	return time.Since(began).Seconds()
}
