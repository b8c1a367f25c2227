package ids_test

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"kennel/ids"
	"kennel/internal/memory"
)

// BenchmarkFigures prints the figures of docs/benchmarks.md, each with its
// limit. Rates are ratios to a bare atomic add in the same run: the median of
// many short rounds that alternate, so that a noisy machine slows both down.
func BenchmarkFigures(b *testing.B) {
	for b.Loop() {
		hotPath(b)
		b.Logf("figure: requests per million numbers, ranges of 1,000 | %.1f | ≤ 1001", float64(requestsFor(b, 10_000_000))/10)
	}
}

func hotPath(b *testing.B) {
	const rounds, calls, run = 41, 2_000_000, 64
	store := memory.NewSequences(nil)
	// One range for the whole benchmark: it measures available numbers only.
	g := newGenerator(b, store, &ids.Options{RangeSize: 1 << 36, MaxRangeSize: 1 << 36})
	ctx := context.Background()
	if _, err := g.Next(ctx); err != nil {
		b.Fatal(err)
	}

	var bare atomic.Int64
	var nexts, leases []float64
	for range rounds {
		start := time.Now()
		for range calls {
			if bare.Add(1) < 0 { // a fair comparison has to read the number
				b.Fatal("the counter overflowed")
			}
		}
		base := time.Since(start)

		start = time.Now()
		for range calls {
			if _, err := g.Next(ctx); err != nil {
				b.Fatal(err)
			}
		}
		nexts = append(nexts, float64(base)/float64(time.Since(start)))

		start = time.Now()
		for range calls / run {
			if _, err := g.Lease(ctx, run); err != nil {
				b.Fatal(err)
			}
		}
		leases = append(leases, float64(base)/float64(time.Since(start)))
	}
	next, lease := median(nexts), median(leases)
	b.Logf("figure: order numbers, one at a time | %.0f %% of a bare atomic add | ≥ 92 %%", 100*next)
	b.Logf("figure: order numbers, leased 64 at a time | %.1f × the rate of one at a time | ≥ 4 ×", lease/next)
	b.Logf("figure: allocations per number | %.0f | 0", testing.AllocsPerRun(1000, func() { g.Next(ctx) }))
}

func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
