package instances

import "time"

// RelayEntity is a queue or topic of Service Bus as a process that sends to it
// sees it.
type RelayEntity struct {
	Entity    string    `json:"entity"`
	State     string    `json:"state"` // "healthy", "suspect" or "failedOver"
	Since     time.Time `json:"since"`
	Throttled bool      `json:"throttled,omitempty"` // sends wait, because the namespace is busy
	LastError string    `json:"error,omitempty"`     // of the primary namespace
}

// Backlog is a sample of the messages that wait in the secondary namespace.
type Backlog struct {
	At       time.Time       `json:"at"`
	More     bool            `json:"more,omitempty"` // there are more messages, of these entities or others
	Entities []BacklogEntity `json:"-"`              // those whose oldest message is the oldest first
}

// BacklogEntity is a queue or topic for which messages wait.
type BacklogEntity struct {
	Entity        string  `json:"entity"`
	Messages      int64   `json:"n"`
	OldestSeconds float64 `json:"oldest"` // since the oldest of them was stored
}

// Sends counts the messages for Service Bus of a process since it started, by
// their end. Each count only grows.
type Sends struct {
	Primary   int64 `json:"primary,omitempty"` // stored where they belong
	Backlog   int64 `json:"backlog,omitempty"` // stored in the backlog
	Failed    int64 `json:"failed,omitempty"`
	Ambiguous int64 `json:"ambiguous,omitempty"` // attempts without an answer: each may have stored a copy
	Throttled int64 `json:"throttled,omitempty"` // attempts
	Failovers int64 `json:"failovers,omitempty"`
	Failbacks int64 `json:"failbacks,omitempty"`

	// The messages in the backlog, by their end.
	Moved        int64 `json:"moved,omitempty"`
	DeadLettered int64 `json:"dead,omitempty"`
	Expired      int64 `json:"expired,omitempty"`
}
