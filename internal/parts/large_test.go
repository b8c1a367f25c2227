package parts

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/observe"
	"kennel/internal/table"
	"kennel/work"
)

// TestReadLarge checks that a batch has no large parcels while a process lives
// that does not report that it can read them, or if the others are not known.
func TestReadLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memory.NewTable(nil)
		process := func(facts func(*instances.Report)) *observe.Members {
			jobs := []job{{facts: facts}}
			return membersOf(rows, instances.Worker, slog.New(slog.DiscardHandler), jobs...)
		}
		own, b := process(nil), &batchWork{}
		check := func(what string, want bool) {
			t.Helper()
			if got := readLarge(t.Context(), own); got != want {
				t.Errorf("%s: %t, want %t", what, got, want)
			}
		}
		live := func(m *observe.Members) (stop func()) {
			reporter := instances.NewReporter(m.Self, m.Rows, m.Log)
			ctx, cancel := context.WithCancel(t.Context())
			go reporter.Run(ctx)
			time.Sleep(time.Minute)
			return cancel
		}
		check("alone", true)
		defer live(process(b.Facts))()
		check("with a process of this build", true)
		stop := live(process(nil))
		check("with an older one", false)
		stop()
		time.Sleep(5 * time.Minute)
		check("after the rollout", true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		page, err := rows.Query(ctx, table.Query{Top: 1})
		if err != nil {
			t.Fatal(err)
		}
		row := page.Rows[0]
		row.Key, row.Values = "another", map[string]string{"format": "0"}
		if _, err := rows.Submit(ctx, table.Write{Verb: table.Insert, Row: row}); err != nil {
			t.Fatal(err)
		}
		check("with a process whose report cannot be read", false)
		own.Rows = nil
		check("without tables", false)
		var r instances.Report
		if b.Facts(&r); parcelSection.Of(r) != work.LargeParcel {
			t.Errorf("report %+v", r)
		}
	})
}
