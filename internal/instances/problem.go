// Package instances carries the reports of the app's processes about
// themselves. Each process knows only its own failures and counts, so an answer
// that must be true for the app reads all of them.
//
// [Self] makes the reports of a process, and a [Reporter] writes them to a row
// of a table, twice a minute and when there is news. [Read] returns the reports
// of the processes that still write theirs. Ages are judged by the store's clock
// alone, so that the clock of no process matters.
package instances

import "time"

// Problem is a fault in a process that an operator may have to act on.
type Problem struct {
	Code    string    `json:"code"`              // a code of the status, such as "blobs_failing"
	Subject string    `json:"subject,omitempty"` // the sequence, gate or queue, if the code concerns one
	What    string    `json:"what"`              // a sentence that names the cause
	Since   time.Time `json:"since"`             // when it began
	Count   int64     `json:"count"`             // failures since then, at least 1
}

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
}
