package queue

import "time"

// InBlobs stores all new claims as blobs.
func (c *Claims) InBlobs() { c.inTable = 0 }

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

// RunOrder runs the random order of TestPushLeavesNothing with this seed.
func RunOrder(seed uint64) OrderResult {
	w := newSchedule(seed)
	left := w.run()
	return OrderResult{
		Left: left, Slept: w.slept, Hushed: w.hushed, Held: w.held, Requested: w.requested, Latest: w.latest,
		TooLate: w.latest > receivedWithin || w.prompt && w.latest > promptly,
	}
}

// OrderResult is what a random order came to.
type OrderResult struct {
	Left                int // messages that were not received
	Slept, Hushed, Held int // listeners asleep, puts that waited for a signal, and messages that waited at the gate
	Requested           int // while the gate was closed
	Latest              time.Duration
	TooLate             bool
}
