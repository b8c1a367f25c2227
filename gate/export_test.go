package gate

import "time"

// SetJitter replaces the random waits, so that a simulation is the same each
// time it is run with its seed. Call it before anything else.
func (g *Gates) SetJitter(jitter func(bound time.Duration) time.Duration) { g.jitter = jitter }
