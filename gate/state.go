package gate

import "time"

// MaxGeneration is the last release that a gate can count: the largest whole
// number that every JSON reader keeps exactly.
const MaxGeneration = 1<<53 - 1

// State is a gate as the store had it, or as a signal has told of it.
type State struct {
	Gate       string `json:"gate"`
	Released   bool   `json:"released"`
	Generation int64  `json:"generation"` // how often it has been released; 0: never

	// The change that has led here. All are zero for a gate that was never
	// changed.
	ChangedAt time.Time `json:"changedAt,omitzero"`
	By        string    `json:"by,omitempty"`
	Reason    string    `json:"reason,omitempty"`

	// History is the last changes, the newest last. It must not be changed. It
	// is empty while only a signal has told of the newest of them.
	History []Transition `json:"history,omitempty"`

	// A gate that was deleted and begun anew, or forced, has another life. Its
	// generations up to base prove no release.
	life string
	base int64
}

// Transition is one change of a gate.
type Transition struct {
	Change     string    `json:"change"`     // "release" or "close"
	Generation int64     `json:"generation"` // after the change
	At         time.Time `json:"at"`         // on the clock of who made it
	By         string    `json:"by"`
	Reason     string    `json:"reason"`
	Operation  string    `json:"operation"` // names the very call that made the change

	// Replaced is the beginning of the text that could not be used and that a
	// forced change has put an end to; "" for every other change.
	Replaced string `json:"replaced,omitempty"`
}

// The values of Transition.Change.
const (
	released = "release"
	closed   = "close"
)

// age orders the states of one gate: each change makes it one older. It is all
// there is to say about whether one piece of news is newer than another.
func (s State) age() int64 {
	if s.Released {
		return 2*s.Generation - 1
	}
	return 2 * s.Generation
}
