package observe

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/instances"
	"kennel/internal/memory"
)

// TestPublishedSamples: samples are in the row soon, so that other processes
// need not sample. Without any the row is not written again.
func TestPublishedSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memory.NewTable(nil)
		log := slog.New(slog.DiscardHandler)
		m, other := NewMembers(rows, instances.Functions, time.Now(), log), NewMembers(rows, instances.Functions, time.Now(), log)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- instances.NewReporter(m.Self, rows, log).Run(ctx) }()
		time.Sleep(40 * time.Second)
		first := map[string]instances.QueueSample{"work-0": {At: time.Now().UTC(), Ready: 7}}
		m.Publish(first)
		time.Sleep(7 * time.Second)
		m.Publish(map[string]instances.QueueSample{"work-1": {At: time.Now().UTC(), Ready: 8}})
		if len(first) != 1 {
			t.Errorf("the caller's samples became %v", first)
		}
		time.Sleep(7 * time.Second)
		others, known := other.Live(t.Context(), instances.QueueSection)
		if !known || len(others) != 1 {
			t.Fatalf("%+v, known %t, want the process", others, known)
		}
		if got := instances.QueueSection.Of(others[0].Report); len(got) != 2 || got["work-0"].Ready != 7 || got["work-1"].Ready != 8 {
			t.Errorf("%+v, want both samples", got)
		}
		time.Sleep(time.Minute)
		before := rows.CallsOf("Submit")
		for range 60 {
			m.Publish(nil)
			time.Sleep(time.Second)
		}
		if writes := rows.CallsOf("Submit") - before; writes > 3 {
			t.Errorf("%d writes within a minute without news", writes)
		}
		stop()
		<-ended
	})
}
