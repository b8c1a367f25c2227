package work

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/storetest"
	"kennel/queue"
	"kennel/work/internal/submit"
)

// slowQueues are queues whose puts take a while.
type slowQueues struct {
	latency time.Duration

	mu   sync.Mutex
	puts map[string]int // of parcels, by message; guarded by mu
}

// start starts a process that puts into slow queues.
func (q *slowQueues) start(s *site) *instance {
	in := s.start(nil, nil)
	put := in.base.Put
	in.base.Put = func(ctx context.Context, queueName, text string, delay time.Duration) error {
		select {
		case <-time.After(q.latency):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := put(ctx, queueName, text, delay); err != nil {
			return err
		}
		e, err := queue.Parse(text)
		if err == nil && !strings.HasSuffix(e.ID, "/results") {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.puts[e.ID]++
		}
		return err
	}
	return in
}

// TestSlowLaunch submits a large batch while its queues are slow, so that
// neither the submission nor a sweep has the time to queue all parcels. A few
// sweeps complete it, because each continues where the one before ended: if they
// are cut off, by what the batch's row keeps; if they are killed, by the results of
// the parcels that were processed meanwhile. No parcel with results is queued
// again.
func TestSlowLaunch(t *testing.T) {
	t.Parallel()
	const share = 130 * time.Second // less than a sweep of 270 s has for the batch
	parcels := storetest.Scale(250, 5_000)
	for _, killed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, nil, 0)
			q := &slowQueues{latency: 10_000 * time.Second / time.Duration(parcels), puts: make(map[string]int)}
			body, _ := someLines(parcels * ParcelItems)
			in := q.start(s)
			if killed {
				time.AfterFunc(share, in.p.Die)
			}
			ctx, cancel := context.WithTimeout(t.Context(), share)
			in.Submit(ctx, Submission{Processor: "scripted", Body: strings.NewReader(body)})
			cancel()
			state := Submitting
			sweeps := 0
			for state == Submitting && sweeps < 10 {
				if killed {
					s.start(nil, nil).drain()
				}
				time.Sleep(5 * time.Minute)
				in := q.start(s)
				if killed {
					time.AfterFunc(share, in.p.Die)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 270*time.Second)
				in.Sweep(ctx) // its error is that it ended early
				cancel()
				sweeps++
				list, err := s.start(nil, nil).List(t.Context(), true, Page{Top: 1})
				if err != nil || len(list.Items) != 1 || list.Items[0].Parcels != parcels {
					t.Fatalf("batches %+v, %v; want one of %d parcels", list.Items, err, parcels)
				}
				state = list.Items[0].State
			}
			if sweeps > 4 || state == Submitting {
				t.Errorf("killed: %t: %s after %d sweeps, want it queued after at most 4", killed, state, sweeps)
			}
			twice := 0
			for _, n := range q.puts {
				twice += n - 1
			}
			// A parcel without results is put again if one before it, which was
			// put at the same time, was cut off.
			if len(q.puts) != parcels || killed && twice > 0 || twice >= sweeps*submit.PutsAtOnce {
				t.Errorf("killed: %t: %d of %d parcels queued, %d twice", killed, len(q.puts), parcels, twice)
			}
		})
	}
}
