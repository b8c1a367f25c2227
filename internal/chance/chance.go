// Package chance draws the random numbers of simulations. Each participant has
// its own source, derived from the simulation's seed, so that the order in
// which participants run within an instant does not affect the numbers of the
// others.
package chance

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// Source is one source of random numbers. It is safe for concurrent use.
type Source struct {
	mu  sync.Mutex
	rng rand.Rand
	pcg rand.PCG
}

// New returns the source of the i-th participant of a kind. A simulation calls
// it for each request, so it is quick.
func New(seed uint64, kind string, i int) *Source {
	var digits [20]byte
	const offset, prime = 14695981039346656037, 1099511628211 // of FNV-1a
	hash := uint64(offset)
	for j := range len(kind) {
		hash = (hash ^ uint64(kind[j])) * prime
	}
	hash = (hash ^ '/') * prime
	for _, b := range strconv.AppendInt(digits[:0], int64(i), 10) {
		hash = (hash ^ uint64(b)) * prime
	}
	s := &Source{}
	s.pcg.Seed(seed, hash)
	s.rng = *rand.New(&s.pcg)
	return s
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
