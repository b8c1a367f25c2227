package ids

import "time"

// SetJitter replaces the random waits of a generator, so that a simulation with
// the same seed always runs the same way. Call it before the first Next.
func (g *Generator) SetJitter(jitter func(bound time.Duration) time.Duration) { g.jitter = jitter }
