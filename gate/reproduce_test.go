//go:build !race

package gate_test

import (
	"testing"
	"testing/synctest"
)

// A simulation is the same each time it is run with its seed. (Two waiters of
// one process that may pass at the same moment may still do so in either order,
// and the race detector shuffles who runs first: hence not under it.)
func TestSeedsReproduce(t *testing.T) {
	const seeds = 200
	same := 0
	for seed := range uint64(seeds) {
		var first, second verdict
		synctest.Test(t, func(t *testing.T) { first = simulate(t, seed) })
		synctest.Test(t, func(t *testing.T) { second = simulate(t, seed) })
		if first == second {
			same++
		}
	}
	t.Logf("%d of %d seeds gave the same run twice", same, seeds)
	if same < seeds*3/4 {
		t.Errorf("%d of %d seeds gave the same run twice", same, seeds)
	}
}
