// Package work processes batches: up to hundreds of thousands of items that
// are submitted together, processed by many workers, and reduced to one report.
//
// Every accepted item ends in exactly one result, and in the report, whatever is
// killed, delivered twice, delayed or reordered. An item may be processed more
// than once; only one of its results counts.
//
// The life of a batch:
//
//  1. Submit reads the body once. It validates each item and packs the items
//     into parcels, which it stages in blobs (submit.go, pack.go). After the
//     last item was valid it records the batch, and puts its parcels into the
//     partition queues (launch.go).
//  2. Process runs the items of a parcel through a [Processor]. It inserts a row
//     with their results, which exists once for each parcel and try (process.go).
//  3. Process counts the results in the row of the batch, the ledger. It has a
//     bit for each parcel and try, so no result counts twice (collect.go). Then
//     items that have to be repeated become a smaller parcel, which is queued
//     with a delay.
//  4. Gather reduces the results to a report when every item has one
//     (gather.go), and removes what was staged.
//
// Sweep completes what a crash interrupted, restarts batches without progress,
// and removes batches when their retention has ended (sweep.go).
package work

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

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

// Outcome is how an item ended.
type Outcome string

// The outcomes of an item.
const (
	ItemDone     Outcome = "done"
	ItemRejected Outcome = "rejected" // the item itself is unusable
	ItemFailed   Outcome = "failed"   // its last try failed
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

// Item is one item of a batch.
type Item struct {
	ID   string          // unique in the batch
	Data json.RawMessage // the whole item, compact JSON
}

// Result is how one item ended.
type Result struct {
	ID      string          `json:"id"`
	Outcome Outcome         `json:"outcome"`
	Result  json.RawMessage `json:"result,omitempty"` // what the processor returned, if the item is done
	Error   string          `json:"error,omitempty"`
}

// Processor processes the items of batches. Its methods are called
// concurrently. One whose valid items depend on settings implements [Selective]
// too.
type Processor interface {
	// Validate returns why an item cannot be processed, in words for its
	// submitter, or nil. It sees each item when the batch is submitted, and
	// makes no requests. That the item is an object with an id is checked
	// before. The item is valid until Validate returns.
	Validate(item json.RawMessage) error

	// Process processes one item and returns its result, at most MaxResult bytes
	// of compact JSON. An error that wraps ErrRejected rejects the item; after
	// any other error, the item is tried again later, up to MaxTries times. ctx
	// ends after the time limit of an item. An item may be processed more than
	// once, also after it was done.
	Process(ctx context.Context, item Item) (json.RawMessage, error)

	// NewReport returns an empty report on a batch.
	NewReport(batch string) Report
}

// Sized is implemented by processors whose batches may have large parcels: their
// items take milliseconds, and their results are short. A parcel is a message and
// a row, so large ones cost less, and a process that is killed repeats more.
type Sized interface {
	// ParcelItems returns how many items a parcel may have, up to LargeParcel,
	// from the LargeFrom-th item of a batch on.
	ParcelItems() int
}

// Report reduces results to a report. It is used by one goroutine.
type Report interface {
	// Add adds a result. The results come in an order that is the same whenever
	// the report is made.
	Add(Result) error

	// JSON and CSV return the report, the same for the same results.
	JSON() ([]byte, error)
	CSV() ([]byte, error)
}

// Limits of batches.
const (
	MaxItem       = 64 << 10 // bytes of one item
	MaxItemID     = 200      // bytes
	MaxName       = 200      // bytes of a batch's name
	MaxResult     = 2 << 10  // bytes of one result
	MaxItemErrors = 20       // invalid items that are reported
	MaxTries      = 5        // of an item that fails
	ParcelItems   = 100      // items of one parcel, unless it is large
	LargeParcel   = 400      // items of a large parcel; see [Sized]
	LargeFrom     = 20_000   // items of a batch before the first large parcel
	ParcelBytes   = 32 << 10 // of one parcel, compressed; a single item may be longer
)

// The errors of the package. ErrUnclear reports that a write may have been made.
var (
	ErrNotFound     = errors.New("the batch does not exist")
	ErrRunning      = errors.New("the batch is not finished")
	ErrFailed       = errors.New("the batch failed and has no report")
	ErrProcessor    = errors.New("unknown processor")
	ErrName         = errors.New("the name of the batch is invalid")
	ErrTooLarge     = errors.New("the batch is too large")
	ErrKeyReused    = errors.New("the key was used for another batch")
	ErrRejected     = errors.New("rejected") // of an item, by its Processor
	ErrContinuation = errors.New("the continuation is invalid")
	ErrCorrupt      = errors.New("what is stored of the batch cannot be used")

	// ErrMessage reports a message that can never be processed.
	ErrMessage = errors.New("the message is not one of this app's")

	// ErrHeld reports that a message was put back, because its gate is closed or
	// because only another process can process it: the caller deletes the
	// message, a copy of it is in the queue.
	ErrHeld = errors.New("put back")
)

// ItemErrors reports that a batch was not accepted because items are invalid.
type ItemErrors struct {
	Items []ItemError // the first MaxItemErrors
	More  bool        // there are others
}

// ItemError is one invalid item. Lines, or elements of an array, count from 1.
type ItemError struct {
	Line    int    `json:"line"`
	Message string `json:"message"`
}

// Error implements error.
func (e *ItemErrors) Error() string {
	if len(e.Items) == 0 {
		return "the batch has no items"
	}
	return "invalid items"
}
