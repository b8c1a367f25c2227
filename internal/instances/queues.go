package instances

import "time"

// QueueSection has the newest samples that a process made, by queue.
var QueueSection = ByName("queues", &Items[QueueSample]{
	Shift: func(s *QueueSample, d time.Duration) { s.At = s.At.Add(d) },
})

// QueueSample is the depth of a queue at one time. Storage reports only the sum
// of Ready, InFlight and Delayed, which may lag behind.
type QueueSample struct {
	At            time.Time `json:"at"`
	Ready         int64     `json:"ready"`          // may be received now
	InFlight      int64     `json:"inFlight"`       // leased by a receiver
	Delayed       int64     `json:"delayed"`        // not to be received yet
	OldestSeconds float64   `json:"oldestSeconds"`  // age of the oldest ready message; 0 without one
	Poison        int64     `json:"poison"`         // messages in the queue's dead letters
	Held          bool      `json:"held,omitempty"` // a closed gate holds the messages that are ready
	Own           bool      `json:"own,omitempty"`  // a queue of the program's own, whose Concurrency decides about hands
}
