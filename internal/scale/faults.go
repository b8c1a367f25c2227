package scale

import (
	"fmt"
	"strings"
)

const maxFaults = 20 // that an error lists

// RulesError reports rules that are invalid.
type RulesError struct {
	Faults []Fault // at least one, and at most the first 20
	More   int     // how many others there are
}

// Fault is one fault of rules. Its JSON is part of the API.
type Fault struct {
	Row     int    `json:"row,omitempty"`    // of the list Member, from 1; 0: not about a row
	Member  string `json:"member,omitempty"` // of the rules; "": about the whole text
	Message string `json:"message"`
}

func (f Fault) String() string {
	if f.Row == 0 {
		return f.Message
	}
	return fmt.Sprintf("row %d of %s: %s", f.Row, f.Member, f.Message)
}

// Error lists the faults in one line.
func (e *RulesError) Error() string {
	var texts []string
	for _, f := range e.Faults {
		texts = append(texts, f.String())
	}
	if e.More > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(texts, "; ")
}

// rulesError returns the error for faults.
func rulesError(faults ...Fault) *RulesError {
	first := faults[:min(len(faults), maxFaults)]
	return &RulesError{first, len(faults) - len(first)}
}
