package model

import (
	"context"
	"encoding/json"
	"time"
)

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
	// of compact JSON. An error that wraps ErrRejected rejects the item, and one
	// that is [Later] decides when it is tried again; after any other error, it is
	// tried again with those of its parcel that failed as often, up to MaxTries
	// times. ctx ends after the time limit of an item. An item may be processed
	// more than once, also after it was done.
	Process(ctx context.Context, item Item) (json.RawMessage, error)

	// New returns an empty report on a batch.
	NewReport(batch string) Report
}

// Selective is implemented by processors whose valid items depend on the
// settings of a process.
type Selective interface {
	// Accepts returns why this process cannot process an item that was valid
	// where it was submitted, or nil. It makes no requests.
	Accepts(item Item) error
}

// Sized is implemented by processors whose batches may have large parcels: their
// items take milliseconds, and their results are short. A parcel is a message and
// a row, so large ones cost less, and a process that is killed repeats more.
type Sized interface {
	// ParcelItems returns how many items a parcel may have, up to LargeParcel,
	// from the LargeFrom-th item of a batch on.
	ParcelItems() int
}

// Bounded is implemented by processors that bound the attempts of an item, or how
// many items a process works on at the same time.
type Bounded interface {
	// Bounds returns them; 0 is the default: MaxTries, and Options.Parallel for
	// each parcel. An item that ignores the end of its ctx is one of atOnce until it
	// returns.
	Bounds() (attempts, atOnce int)
}

// Later is an error of Process that decides when the item is tried again.
type Later struct {
	Wait    time.Duration // before the next attempt, up to MaxWait
	AtLeast bool          // the wait is the usual one if that is longer
	Snoozed bool          // this is no attempt; Err is not needed
	Err     error
}

// Error implements error.
func (l *Later) Error() string {
	if l.Err == nil {
		return "the processor put the item off"
	}
	return l.Err.Error()
}

func (l *Later) Unwrap() error { return l.Err }

// Ender is implemented by processors that are told when a batch has ended. A type
// that is told nothing for some batches returns nil.
type Ender interface {
	// Ended is called after a batch of the processor is Done or Failed: at least
	// once, in any process that has the processor, and not before its results and
	// its report can be read. try counts the calls from 1, if no process was killed.
	// After an error it is called again later, up to hours later, until it returns
	// nil or an error that wraps ErrRejected, or until the retention of the batch
	// ends.
	Ended(ctx context.Context, b Batch, try int) error
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
