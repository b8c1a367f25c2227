package app

import (
	"testing"
)

// TestGrowthOfHeap proves that a small heap may hold heapFloor of garbage, and a
// larger one as much as is in use, never more.
func TestGrowthOfHeap(t *testing.T) {
	for _, tt := range []struct {
		live uint64
		want int
	}{{0, 300}, {1 << 20, 300}, {4 << 20, 300}, {6 << 20, 200}, {8 << 20, 150}, {12 << 20, 100}, {1 << 30, 100}} {
		if got := growthOf(tt.live); got != tt.want {
			t.Errorf("GOGC of %d bytes in use = %d, want %d", tt.live, got, tt.want)
		}
	}
	for live := uint64(1); live < 1<<30; live += live/7 + 1 {
		if garbage, most := live*uint64(growthOf(live))/100, max(live, heapFloor); garbage > most {
			t.Errorf("%d bytes in use may have %d of garbage, want at most %d", live, garbage, most)
		}
	}
}
