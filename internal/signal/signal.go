// Package signal defines how a process wakes others: gates after a change, and
// queues after a message was put. A signal only wakes. It may be lost, arrive
// twice, out of order or from any program, and nothing in it is believed: the
// receiver reads the store, which decides.
package signal

import "context"

// Signals carries signals of one kind from process to process. A message that
// cannot be decoded is delivered as the zero S.
type Signals[S any] interface {
	// Publish sends a signal to every process that listens, this one included.
	// It is called concurrently, and not again after an error.
	Publish(ctx context.Context, s S) error

	// Listen passes every signal to l, one call at a time, until ctx ends, and
	// then returns nil. It reconnects by itself. An error means that this
	// process cannot listen at all, for instance for lack of rights; Listen may
	// be called again later.
	Listen(ctx context.Context, l Listener[S]) error
}

// Listener receives what a Signals delivers. Its methods do not block.
type Listener[S any] interface {
	// Up reports that signals published from now on will be received.
	Up()

	// Down reports that signals may be missed from now on. Listening begins
	// like that.
	Down(why error)

	// Received delivers a signal.
	Received(s S)
}
