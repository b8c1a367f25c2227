// Package model has the terms of package work: batches, items, results, processors
// and errors, and the contracts of what batches need. Callers know them by the names
// that package work gives them.
package model

import "time"

// State is the state of a batch.
type State string

// The states of a batch. Held is reported instead of Running while the gate of
// the work queues is closed; it is not stored.
const (
	Submitting State = "submitting" // not all parcels are queued
	Running    State = "running"
	Held       State = "held"
	Gathering  State = "gathering" // every item has a result; the report is made
	Done       State = "done"
	Failed     State = "failed" // the batch cannot be finished; see its Error
)

// Batch is a batch as callers see it.
type Batch struct {
	ID        string `json:"batch"`
	Name      string `json:"name"`
	Processor string `json:"processor"`
	State     State  `json:"state"`
	Error     string `json:"error,omitempty"` // why it is Failed

	Items    int `json:"items"`
	Done     int `json:"done"`
	Rejected int `json:"rejected"`
	Failed   int `json:"failed"`
	Parcels  int `json:"parcels"`

	SubmittedAt time.Time  `json:"submittedAt"`
	FinishedAt  *time.Time `json:"finishedAt"`

	// LateBy is how many seconds after the latency target the batch finished, or
	// by how much it is late now; 0 if it is not late, or held.
	LateBy float64 `json:"lateBy"`

	// StorageOperations is how many requests the batch has caused so far. If
	// Modelled, it includes an estimate of those of the Functions host.
	StorageOperations int64 `json:"storageOperations"`
	Modelled          bool  `json:"modelled"`

	// Retrying is what failed and is tried again; nil: nothing.
	Retrying *Retrying `json:"retrying,omitempty"`
}

// Retrying describes the items of a batch that failed and are tried again.
type Retrying struct {
	Items       int       `json:"items"`
	More        bool      `json:"more,omitempty"` // perhaps others as well
	Attempts    int       `json:"attempts"`       // most of one item so far
	MaxAttempts int       `json:"maxAttempts"`    // of an item
	Item        string    `json:"item"`           // one of those with the most attempts
	Error       string    `json:"error"`          // why its last attempt failed
	NextAt      time.Time `json:"nextAt"`         // when the next of all these attempts begins, at the earliest
}
