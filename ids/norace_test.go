//go:build !race

package ids_test

import (
	"maps"
	"testing"
	"testing/synctest"
)

const defaultSimulations = 20_000

// A simulation is the same each time it is run with its seed. (Two callers of
// one node that wait for the same range may still be served in either order,
// and the race detector shuffles who runs first: hence not under it.)
func TestSeedsReproduce(t *testing.T) {
	const seeds = 50
	same := 0
	for seed := range uint64(seeds) {
		var first, second map[int64]int
		synctest.Test(t, func(t *testing.T) { first = simulate(t, seed).issued })
		synctest.Test(t, func(t *testing.T) { second = simulate(t, seed).issued })
		if maps.Equal(first, second) {
			same++
		}
	}
	t.Logf("%d of %d seeds gave the same run twice", same, seeds)
	if same < seeds*3/4 {
		t.Errorf("%d of %d seeds gave the same run twice", same, seeds)
	}
}
