package relay

import (
	"time"
)

// EventKind is the kind of an event.
type EventKind string

const (
	StateChanged EventKind = "state changed"         // of Entity, From, To; Cause is the primary's error
	PingFailed   EventKind = "ping failed"           // of Entity; Cause
	QueueFailed  EventKind = "backlog queue failed"  // Queue, Cause; it is left out for a while
	Drained      EventKind = "backlog drained"       // Queue: a syphon moved messages and found no more
	PathFailed   EventKind = "target failed"         // Entity, Cause: its messages stay in the backlog for a while
	DeadLettered EventKind = "message dead-lettered" // Queue, Entity if known, Cause
	Expired      EventKind = "message expired"       // Queue, Entity: its time to live ended in the backlog
	BadMessage   EventKind = "message unreadable"    // Queue, Cause: it stays in the queue
)

// Event is something that an operator may want to see.
type Event struct {
	At            time.Time
	Kind          EventKind
	Entity, Queue string
	From, To      State
	Cause         error
}
