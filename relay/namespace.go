package relay

import (
	"context"
	"time"
)

// Namespace creates connections to one Service Bus namespace. It is safe for
// concurrent use.
type Namespace interface {
	// Connect makes no request, so it fails only if the settings are invalid.
	Connect() (Connection, error)
}

// Connection is one client of a namespace with a connection of its own, which
// it opens, and opens again after a failure, when a method needs it. It is safe
// for concurrent use, and slow answers for one entity do not delay the others.
//
// Each method returns when its context ends, within 100 ms. Errors have the
// type [*Error], except that a method whose context ended may return the
// context's error. No method retries for longer than a second: the relay
// retries.
type Connection interface {
	Outgoing
	Incoming

	// Close ends the connection and everything that waits on it. After its
	// context ended it gives up, and the connection is still unusable.
	Close(ctx context.Context) error
}

// Outgoing is the part of a connection that a [Sender] needs.
type Outgoing interface {
	// Send returns nil only if the namespace confirmed that the message is
	// stored. It does not change the message.
	Send(ctx context.Context, entity string, m *Message) error

	// Ping attaches to the entity as a sender and waits until it may send. It
	// sends no message. It must not use a link that is open already, because
	// that one proves nothing.
	Ping(ctx context.Context, entity string) error

	// Peek returns up to n messages of the queue, including those that are
	// locked, in the order of their sequence numbers, beginning with the first
	// whose number is at least from. It returns none at the end of the queue.
	// Its error is of the class Unreadable if one of them cannot be decoded.
	Peek(ctx context.Context, queue string, from int64, n int) ([]*Delivery, error)
}

// Incoming is the part of a connection that a [Syphon] needs.
type Incoming interface {
	// Receive locks up to n messages of the queue. It waits for the first one
	// until its context ends, and then returns neither messages nor an error.
	// It may return early without messages.
	//
	// Its error is of the class Unreadable if a message cannot be decoded. The
	// messages that were received with it stay locked until their locks end.
	Receive(ctx context.Context, queue string, n int) ([]*Delivery, error)

	// Settle ends a delivery. It returns nil only if the namespace confirmed
	// it.
	Settle(ctx context.Context, d *Delivery, s Settlement) error

	// Renew extends the lock of a delivery and changes its LockedUntil. Its
	// error is of the class LockLost if another receiver may have the message.
	Renew(ctx context.Context, d *Delivery) error
}

// Delivery is a message as it lies in a queue.
type Delivery struct {
	Message  *Message
	Sequence int64     // its number in the queue
	Enqueued time.Time // by the clock of the namespace

	// Only of a message that was received:
	LockedUntil time.Time // by the clock of this process
	Handle      any       // for the connection: what it needs to settle it
}

// Settlement is how a delivery ends.
type Settlement struct {
	Action Action

	// For dead letters, both below 4,096 bytes.
	Reason, Description string
}

// Action is how a delivery ends.
type Action int

const (
	Complete   Action = iota + 1 // it is deleted
	Abandon                      // it is unlocked
	DeadLetter                   // it goes to the dead letters of its queue
)

// Queues administers the backlog queues of the secondary namespace. Its errors
// have the type [*Error].
type Queues interface {
	// Ensure creates the queue if it does not exist, and leaves an existing one
	// unchanged. Settings of a new queue: lock duration 1 minute, maximum
	// delivery count 2^31-1, dead-lettering of expired messages, no time to
	// live and no deletion when idle, maximum size 5 GiB, no sessions.
	Ensure(ctx context.Context, queue string) error

	// Depth returns how many messages the queue holds, with those that are
	// locked and without its dead letters.
	Depth(ctx context.Context, queue string) (int64, error)
}
