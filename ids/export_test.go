package ids

import "time"

// SetJitter replaces the random waits of a generator, so that a simulation is
// the same each time it is run with its seed. Call it before the first Next.
func (g *Generator) SetJitter(jitter func(bound time.Duration) time.Duration) { g.jitter = jitter }
