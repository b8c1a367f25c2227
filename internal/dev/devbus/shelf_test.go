package devbus

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A shelf is compared with the plainest thing that does the same.
func TestShelf(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var s shelf
	model := map[int64]*message{}
	for range 20_000 {
		n := int64(r.IntN(300))
		switch m := model[n]; {
		case m == nil:
			model[n] = &message{sequence: n}
			s.add(model[n])
		case s.get(n) != m:
			t.Fatalf("message %d is not on the shelf", n)
		default:
			s.remove(m)
			s.remove(m) // again does no harm
			delete(model, n)
		}
		if len(s) != len(model) {
			t.Fatalf("%d messages are on the shelf, want %d", len(s), len(model))
		}
	}
	if !slices.IsSortedFunc(s, func(a, b *message) int { return int(a.sequence - b.sequence) }) {
		t.Error("the shelf is not in order")
	}
}
