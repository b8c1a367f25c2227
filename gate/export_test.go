package gate

import "time"

// SetJitter replaces the random waits of who changes a gate, so that a
// simulation is the same each time it is run with its seed. Call it before the
// first change.
func (g *Gates) SetJitter(jitter func(bound time.Duration) time.Duration) { g.jitter = jitter }
