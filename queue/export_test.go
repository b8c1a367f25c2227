package queue

import "flag"

// SeedToRun is the flag of all simulations of this package.
var SeedToRun = flag.Uint64("seed", 0, "run the one simulation with this seed")
