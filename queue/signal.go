package queue

import (
	"time"

	"kennel/internal/signal"
)

// Signal is a message about one queue. A listener never believes it: it causes a
// receive, and the store decides.
type Signal struct {
	Queue string // "": any
	Kind  Kind
}

// Kind is the event that a signal announces.
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
type Signals = signal.Signals[Signal]

// SignalHandler receives the signals that a Signals delivers. Its methods do
// not block.
type SignalHandler = signal.Listener[Signal]

// signalEvery is how long a publisher sends no signal for a queue after any
// signal for that queue, its own or received.
const signalEvery = time.Second

// maxSignalWait bounds the wait before a signal that failed is sent again.
const maxSignalWait = 30 * time.Second

// notice decides when a publisher signals work in one queue. It is pure state,
// so that a test can drive it through any order of events. The rule that leaves
// no message unannounced: a signal is delayed, but never dropped. Of the
// messages put in the meantime, the last needs the signal: a listener may have
// found the queue empty just before it, and fall asleep just after.
type notice struct {
	wanted  bool      // a message was put since the last signal was begun
	sending bool      // a signal is being sent
	quiet   time.Time // no signal before
	wait    time.Duration
}

// put records that the store confirmed a message, or may have stored it.
func (n *notice) put() { n.wanted = true }

// received records that a signal arrived: a listener is awake, or was woken by
// another publisher. The spread is random, so that many publishers that wait
// for the same second do not all send at its end.
func (n *notice) received(now time.Time, spread time.Duration) {
	n.hush(now.Add(signalEvery + spread))
}

// due returns when to send a signal.
func (n *notice) due() (at time.Time, wanted bool) { return n.quiet, n.wanted && !n.sending }

// begin records that a signal is being sent.
func (n *notice) begin(now time.Time) {
	n.wanted, n.sending = false, true
	n.hush(now.Add(signalEvery))
}

// sent records the result.
func (n *notice) sent(now time.Time, err error) {
	n.sending = false
	if err == nil {
		n.wait = 0
		return
	}
	n.wanted = true
	n.wait = min(max(2*n.wait, signalEvery), maxSignalWait)
	n.hush(now.Add(n.wait))
}

func (n *notice) hush(until time.Time) {
	if until.After(n.quiet) {
		n.quiet = until
	}
}
