package sorted

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestList compares a sorted list with a sorted slice.
func TestList(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var got List[int]
	want := make(map[string]int)
	for i := range 20_000 {
		name := fmt.Sprint(random.IntN(3000))
		if random.IntN(3) == 0 {
			got.Remove(name)
			delete(want, name)
		} else {
			got.Put(name, i)
			want[name] = i
		}
		if i%1000 > 0 {
			continue
		}
		var names []string
		from := fmt.Sprint(random.IntN(3000))
		for name := range want {
			if name >= from {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		n := 0
		for name, item := range got.From(from) {
			if name != names[n] || item != want[name] {
				t.Fatalf("item %d is %s, want %s", n, name, names[n])
			}
			n++
		}
		if n != len(names) || got.Size() != len(want) {
			t.Fatalf("there are %d and %d items, want %d and %d", n, got.Size(), len(names), len(want))
		}
	}
}
