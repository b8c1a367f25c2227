package gate

import "time"

// MaxGeneration is the largest generation: the largest whole number that every
// JSON reader keeps exactly.
const MaxGeneration = 1<<53 - 1

// State is a gate as the store had it.
type State struct {
	Gate       string `json:"gate"`
	Released   bool   `json:"released"`
	Generation int64  `json:"generation"` // of the last release; 0: none
	Releases   int64  `json:"releases"`   // how many there were, since the document was created or replaced by force

	// The last change. All are zero for a gate without a document.
	ChangedAt time.Time `json:"changedAt,omitzero"` // on the store's clock
	By        string    `json:"by,omitempty"`
	Reason    string    `json:"reason,omitempty"`

	// History is the last changes, the newest last. It must not be changed.
	History []Transition `json:"history,omitempty"`
}

// Transition is one change of a gate, also as it is stored.
type Transition struct {
	Change     string    `json:"change"`     // "release" or "close"
	Generation int64     `json:"generation"` // after the change
	At         time.Time `json:"at"`         // on the store's clock
	By         string    `json:"by"`
	Reason     string    `json:"reason"`
	Operation  string    `json:"operation"` // unique to the call that made the change

	// Replaced is the beginning of the unusable text that a forced change
	// replaced; "" for every other change.
	Replaced string `json:"replaced,omitempty"`
}

// The values of Transition.Change.
const (
	released = "release"
	closed   = "close"
)

// age orders the states of one document: each change makes it one older.
func (s State) age() int64 {
	if s.Released {
		return 2*s.Generation - 1
	}
	return 2 * s.Generation
}
