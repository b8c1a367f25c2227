package ids_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// With more processes on a sequence than its history has writers, and a range
// a second, a process reads the reports once in ten seconds, and once a second
// while that fails. Each range is reserved after sixteen others.
func TestReportsAreBounded(t *testing.T) {
	storetest.OnlyInProve(t)
	for name, tt := range map[string]struct {
		err   error
		reads int64 // in a hundred seconds
	}{
		"read":   {nil, 11},
		"failed": {errLost, 101},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewSequences(nil)
				var table rows
				var reads [24]atomic.Int64
				var all []*ids.Generator
				for i := range reads {
					all = append(all, newGenerator(t, store, &ids.Options{MaxRangeSize: 10, Reported: func(ctx context.Context) (map[string][]ids.Reported, error) {
						reads[i].Add(1)
						if tt.err != nil {
							return nil, tt.err
						}
						return table.of(i)(ctx)
					}}))
				}
				for range 200 { // 100 s
					for i, g := range all {
						if _, err := g.Lease(t.Context(), 10); err != nil {
							t.Fatal(err)
						}
						table.report(i, g.Stats())
					}
					time.Sleep(500 * time.Millisecond)
				}
				most, writes := int64(0), store.CallsOf("Replace")/int64(len(all))
				for i, g := range all {
					most = max(most, reads[i].Load())
					closeNow(g)
				}
				if most > tt.reads || most < 10 || writes < 150 {
					t.Errorf("a process read the reports up to %d times in 100 s and %d writes, want 10 to %d in 150", most, writes, tt.reads)
				}
			})
		})
	}
}
