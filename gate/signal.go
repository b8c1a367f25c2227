package gate

import "kennel/internal/signal"

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
type Signals = signal.Signals[Signal]

// Listener receives the signals that a Signals delivers. Its methods do not
// block.
type Listener = signal.Listener[Signal]
