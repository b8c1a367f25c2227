package gate

import "context"

// Signal tells that a gate has been changed: after the store has confirmed it,
// never before.
type Signal struct {
	Gate       string
	Generation int64
	Released   bool   // false: it has been shut since that generation's release
	Life       string // tells the gate from one of the same name that was deleted; "" if unknown
}

// Signals carries signals from process to process. They may get lost, arrive
// twice or in another order: waiting costs more time then, and nothing else.
type Signals interface {
	// Publish sends a signal to everybody who listens, this process included.
	// It is called concurrently, and not again after an error.
	Publish(ctx context.Context, s Signal) error

	// Listen hands every signal to the listener, one call at a time, until ctx
	// ends, and then returns nil. It reconnects by itself. An error says that
	// this process cannot listen at all, as for lack of rights; Listen may be
	// called again later.
	Listen(ctx context.Context, l Listener) error
}

// Listener is what a Signals tells of signals. Its methods do not block.
type Listener interface {
	// Up says that signals published from now on will be heard.
	Up()

	// Down says that signals may be missed from now on. Listening begins like
	// that.
	Down(why error)

	// Heard hands over a signal.
	Heard(s Signal)
}
