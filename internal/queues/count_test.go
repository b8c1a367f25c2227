package queues

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/internal/storetest"
)

// TestCounts: the report of a process has its attempts by declared queue and
// outcome, the age at success from the first send, and the last success.
func TestCounts(t *testing.T) {
	for _, hosted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(nil)
			p := storetest.NewProcess(nil)
			meter := &observe.Meter{}
			q := w.open(t, p, hosted, &Options{Meter: meter})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			began := time.Now()
			for i, kind := range []string{"later", "rejected", "snoozes"} {
				if _, err := q.Send(ctx, "mails", order{Kind: kind, N: i + 1}.text(), 0); err != nil {
					t.Fatal(err)
				}
			}
			w.live(ctx, t, p, q)
			var r instances.Report
			q.Facts(&r)
			all := instances.MessagingSection.Of(r)
			m := all["mails"]
			for outcome, want := range map[string]int64{"done": 2, "rejected": 1, "retried_later": 2, "snoozed": 3} {
				if m.Outcomes[outcome] != want {
					t.Errorf("hosted %v: %d %s, want %d", hosted, m.Outcomes[outcome], outcome, want)
				}
			}
			last := m.LastSuccess.Sub(began)
			if len(all) != 1 || m.Sent != 3 || m.SuccessAgeSeconds < 90 || m.SuccessAgeSeconds > 150 || last < time.Minute || last > 2*time.Minute || len(m.SuccessAges) == 0 {
				t.Errorf("hosted %v: %+v, last success after %v", hosted, all, last)
			}
			if meter.Facts(&r); hosted {
				if work := instances.WorkSection.Of(r)["jobs"]; work.Done != 2 || work.Retried != 2 || work.Returned != 3 || work.DeadLetters != 1 {
					t.Errorf("the work of the host: %+v", work)
				}
			}
		})
	}
}

// TestLate: a message that is ready for more than a day is a problem until a
// sample shows none.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		p := storetest.NewProcess(nil)
		q := w.open(t, p, false, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Hour)
		defer cancel()
		late := func() bool {
			if _, err := q.Sample(ctx); err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(q.Problems(), func(p instances.Problem) bool { return p.Code == instances.QueueLate && p.Subject == "orders" })
		}
		if _, err := q.Send(ctx, "orders", order{N: 1}.text(), 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(23 * time.Hour)
		before := late()
		time.Sleep(2 * time.Hour)
		after := late()
		short, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		w.live(short, t, p, q)
		if before || !after || late() {
			t.Errorf("late after 23 hours: %v, after 25: %v, when it is done: %v", before, after, late())
		}
	})
}
