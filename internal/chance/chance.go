// Package chance draws the random numbers of simulations. Everybody in one has
// a source of its own, made from the simulation's seed, so that who runs first
// within an instant changes nothing for the others.
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

// New returns the source of the i-th who is of that kind.
func New(seed uint64, of string, i int) *Source {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", of, i)
	return &Source{rng: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// Below draws a number from 0 to n-1.
func (s *Source) Below(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// UpTo draws a time a little above zero: no two events of a simulation are to
// fall into the same instant.
func (s *Source) UpTo(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 1 + time.Duration(s.rng.Int64N(max(1, int64(d))))
}
