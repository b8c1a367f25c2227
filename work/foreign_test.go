package work

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/queue"
	"kennel/work/internal/format"
	"kennel/work/internal/process"
)

// newer is a processor whose items only the newer processes of a rollout accept.
type newer struct {
	*scripted
	isNew *atomic.Bool
}

func (n newer) Accepts(Item) error {
	if !n.isNew.Load() {
		return errors.New("the URL is not allowed")
	}
	return nil
}

// TestRollout processes a batch while for half an hour a process of before the
// rollout, which does not know its processor or its URLs, receives every parcel.
// No item is rejected or failed, no attempt is used up, and the batch is done
// soon after the rollout.
func TestRollout(t *testing.T) {
	t.Parallel()
	for _, unknown := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, nil, 0)
			var isNew atomic.Bool
			old, in := s.start(nil, nil), s.start(nil, nil)
			if unknown {
				old.base.Processors = map[string]Processor{}
			} else {
				old.base.Processors = map[string]Processor{"scripted": newer{s.processor, &isNew}}
			}
			body, items := someLines(1_050)
			b, _, err := in.send("", body)
			if err != nil {
				t.Fatal(err)
			}
			receive := func(in *instance) (received int) {
				for _, name := range []string{"work-0", "work-1", "work-2", "work-3", ExpressQueue} {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					messages, err := in.qs.Receive(ctx, name, queue.MaxReceive, time.Minute)
					cancel()
					if err != nil {
						t.Fatal(err)
					}
					for _, m := range messages {
						received++
						in.handle(t.Context(), name, m, 1)
					}
				}
				return received
			}
			puts := 0
			for range 30 * 60 {
				puts += receive(old)
				time.Sleep(time.Second)
			}
			what := old.Foreign()
			s.processor.mu.Lock()
			calls := len(s.processor.calls)
			s.processor.mu.Unlock()
			if calls > 0 || what.Messages != int64(puts) || !strings.Contains(what.Reason, "scripted") || time.Since(what.Since) < 29*time.Minute {
				t.Errorf("unknown processor: %t: %d calls, %+v, want none and all %d messages", unknown, calls, what, puts)
			}
			// With a wait that grows to an eighth of its age, each is received some
			// thirty times. More would be a bill, fewer a late batch.
			if parcels := b.Parcels; puts < 10*parcels || puts > 60*parcels {
				t.Errorf("unknown processor: %t: %d messages of %d parcels in half an hour", unknown, puts, parcels)
			}
			time.Sleep(process.MaxForeignDelay)
			in.drain()
			s.settled(nil, true, items)
			time.Sleep(10 * time.Minute)
			if left := old.Foreign(); left != (Foreign{}) {
				t.Errorf("long after the rollout: %+v", left)
			}
		})
	}
}

// TestForeignReport sweeps a batch whose results are all counted, in a process
// that does not know the processor: a process that knows it makes the report.
func TestForeignReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		in, d := s.one(nil, item(1, ""))
		message := s.queues.All(ExpressQueue)[0]
		_, p, err := in.base.ParcelOf(t.Context(), message.Body)
		if err != nil {
			t.Fatal(err)
		}
		// The process that knows the processor is killed before it makes the report.
		r, err := in.worker.Try(t.Context(), in.base.Processors[p.Processor], p)
		if err != nil {
			t.Fatal(err)
		}
		row, err := in.base.Store.InsertResults(t.Context(), p.Batch, r.Row())
		if err == nil {
			_, err = in.base.Store.CountAll(t.Context(), p.Batch, []format.ResultRow{row})
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		old := s.start(nil, nil)
		old.base.Processors = map[string]Processor{}
		if swept, err := old.sweep(); !errors.Is(err, ErrProcessor) || swept.Completed != 0 {
			t.Fatalf("sweep in a process without the processor: %+v, %v", swept, err)
		}
		if b, err := in.Get(t.Context(), d.ID); err != nil || b.State != Gathering {
			t.Fatalf("batch %+v, %v; want it %s", b, err, Gathering)
		}
		if swept, err := in.sweep(); err != nil || swept.Completed != 1 {
			t.Fatalf("sweep: %+v, %v", swept, err)
		}
		if b, err := in.Get(t.Context(), d.ID); err != nil || b.State != Done {
			t.Errorf("batch %+v, %v; want it %s", b, err, Done)
		}
	})
}
