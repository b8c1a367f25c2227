package program

import (
	"time"

	"kennel/internal/attempt"
)

// Use records the use of a built-in part.
func (d *Declared) Use(p Part) {
	if d.Uses == nil {
		d.Uses = make(map[Part]bool)
	}
	d.Uses[p] = true
}

// Batch is a batch of items.
type Batch struct {
	ID        string
	Name      string // for people
	Processor string
	State     string // submitting, running, held, gathering, done or failed
	Error     string // why it has failed

	Items, Done, Rejected, Failed int

	SubmittedAt, FinishedAt time.Time // FinishedAt is zero until then
}

// Ended reports whether every item has a result, and the report is made or
// cannot be.
func (b Batch) Ended() bool { return b.State == "done" || b.State == "failed" }

// RawResult is how one item of a batch ended, with its value as JSON.
type RawResult struct {
	ID    string
	State attempt.Outcome
	Value []byte
	Error string
}

// BusMessage is a message for Service Bus; members that are empty are not sent.
type BusMessage struct {
	ID            string // the broker drops a second one of the same id, where its queue detects duplicates; default: a new one
	Body          []byte
	ContentType   string
	Subject       string
	SessionID     string
	CorrelationID string
	Properties    map[string]any // of strings, numbers, booleans and times
	TimeToLive    time.Duration  // default: that of the entity
}

// BusReceipt is what became of a message for Service Bus.
type BusReceipt struct {
	ID      string
	Backlog bool // it waits on the secondary namespace
}
