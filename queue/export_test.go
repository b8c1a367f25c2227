package queue

import "flag"

// InBlobs stores all new claims as blobs.
func (c *Claims) InBlobs() { c.inTable = 0 }

// SeedToRun is the flag of all simulations of this package.
var SeedToRun = flag.Uint64("seed", 0, "run the one simulation with this seed")

// WithLimits returns the options with other limits; 0 means the default.
func (o ListenerOptions) WithLimits(memory, requests int) *ListenerOptions {
	o.memory, o.requests = memory, requests
	return &o
}

// WithParallel returns the options with this many puts at the same time.
func (o PublisherOptions) WithParallel(n int) *PublisherOptions {
	o.parallel = n
	return &o
}
