package gate

import "context"

// Signal announces that a gate was changed. It is sent after the store has
// confirmed the change. A process that receives it reads the store, and
// nothing in it is believed.
type Signal struct {
	Gate       string // "": any
	Generation int64  // for people who look at the topic
}

// Signals carries signals from process to process. They may be lost, arrive
// twice, out of order or from anyone: waiting takes longer then, or a gate is
// read once more. A message that cannot be decoded is delivered as the zero
// Signal.
type Signals interface {
	// Publish sends a signal to every process that listens, this one included.
	// It is called concurrently, and not again after an error.
	Publish(ctx context.Context, s Signal) error

	// Listen passes every signal to the listener, one call at a time, until ctx
	// ends, and then returns nil. It reconnects by itself. An error means that
	// this process cannot listen at all, for instance for lack of rights;
	// Listen may be called again later.
	Listen(ctx context.Context, l Listener) error
}

// Listener receives what a Signals delivers. Its methods do not block.
type Listener interface {
	// Up reports that signals published from now on will be received.
	Up()

	// Down reports that signals may be missed from now on. Listening begins
	// like that.
	Down(why error)

	// Received delivers a signal.
	Received(s Signal)
}
