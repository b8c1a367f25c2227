// Package chance draws the random numbers of simulations. Each participant has
// its own source, derived from the simulation's seed, so that the order in
// which participants run within an instant does not affect the numbers of the
// others.
package chance

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// Source is one source of random numbers. It is safe for concurrent use.
type Source struct {
	mu  sync.Mutex
	rng *rand.Rand
}

// New returns the source of the i-th participant of a kind.
func New(seed uint64, kind string, i int) *Source {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", kind, i)
	return &Source{rng: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// Below draws a number from 0 to n-1.
func (s *Source) Below(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// UpTo draws a duration from 1 ns to d. It is never zero, so that few events of
// a simulation fall into the same instant.
func (s *Source) UpTo(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 1 + time.Duration(s.rng.Int64N(max(1, int64(d))))
}
