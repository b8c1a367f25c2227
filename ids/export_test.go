package ids

import "time"

// SetJitter replaces the random waits of a generator, so that a simulation with
// the same seed always runs the same way. Call it before the first Next.
func (g *Generator) SetJitter(jitter func(bound time.Duration) time.Duration) { g.jitter = jitter }

// SetJitter does so for the generator of a sequence.
func (s *Set) SetJitter(sequence string, jitter func(bound time.Duration) time.Duration) {
	g, err := s.generator(sequence)
	if err != nil {
		panic(err)
	}
	g.SetJitter(jitter)
}
