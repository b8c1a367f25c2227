package queue

import "context"

// Signal is a message about one queue. A listener never believes it: it causes a
// receive, and the store decides.
type Signal struct {
	Queue string // "": any
	Kind  Kind
}

// Kind is what a signal announces.
type Kind int

const (
	// Work reports that a message was put.
	Work Kind = iota

	// Awake reports that a listener receives from the queue now, so that
	// publishers need not signal for a second.
	Awake
)

// Signals carries signals from process to process. They may be lost, arrive
// twice, out of order or from any program: a message is then received later, or
// a queue is polled once more. A message that cannot be decoded is delivered as
// the zero Signal.
type Signals interface {
	// Publish sends a signal to every process that listens, this one included.
	// It is called concurrently.
	Publish(ctx context.Context, s Signal) error

	// Listen passes every signal to h, one call at a time, until ctx ends, and
	// then returns nil. It reconnects by itself. An error means that this
	// process cannot listen at all, for instance for lack of rights; Listen may
	// be called again later.
	Listen(ctx context.Context, h SignalHandler) error
}

// SignalHandler receives what a Signals delivers. Its methods do not block.
type SignalHandler interface {
	// Up reports that signals published from now on will be received.
	Up()

	// Down reports that signals may be missed from now on. Listening begins
	// like that.
	Down(why error)

	// Received delivers a signal.
	Received(s Signal)
}
