package work

import (
	"context"
	"errors"
	"fmt"

	"kennel/internal/names"
	"kennel/internal/table"
	"kennel/work/internal/base"
	"kennel/work/internal/collect"
	"kennel/work/internal/model"
	"kennel/work/internal/process"
	"kennel/work/internal/submit"
	"kennel/work/internal/sweep"
)

// ExpressQueue is a queue of parcels. The parcels of a batch are spread over the partition
// queues work-0, work-1 and so on. Those of a small batch go to ExpressQueue, so
// that it does not wait behind a large one.
const ExpressQueue = names.ExpressQueue

// PartitionQueue returns the name of the n-th partition queue, from 0.
func PartitionQueue(n int) string { return names.PartitionQueue(n) }

// CheckID returns ErrNotFound for a text that cannot be the ID of a batch.
func CheckID(id string) error { return model.CheckID(id) }

// Page selects a page of a list.
type Page struct {
	Top          int // 1 to 1,000
	Continuation string
}

// List is a page of a list.
type List[T any] struct {
	Items        []T    `json:"items"`
	Continuation string `json:"continuation,omitempty"`

	// LeftOut counts the batches of the page that cannot be read, so that one of
	// them does not hide all others. Problem is the ErrCorrupt of the first one.
	LeftOut int   `json:"leftOut,omitzero"`
	Problem error `json:"-"`
}

// Batches is the batches of one app. It is safe for concurrent use.
type Batches struct {
	base      *base.Base
	collector *collect.Collector
	submitter *submit.Submitter
	worker    *process.Worker
	sweeper   *sweep.Sweeper
}

// New returns the batches in these stores. It makes no request.
func New(stores Stores, processors map[string]Processor, options *Options) (*Batches, error) {
	b, err := base.New(stores, processors, options)
	if err != nil {
		return nil, fmt.Errorf("new batches: %w", err)
	}
	c := &collect.Collector{Base: b}
	s := submit.New(b, c)
	return &Batches{base: b, collector: c, submitter: s, worker: &process.Worker{Base: b, Collector: c}, sweeper: &sweep.Sweeper{Base: b, Collector: c, Submitter: s}}, nil
}

// Submit accepts a batch: it reads, validates and stores all items, and then
// queues them. If an item is invalid, or the body cannot be read to its end,
// nothing is stored; see [ItemErrors] and ErrTooLarge. After an error that wraps
// table.ErrUnclear, the batch may be processed all the same.
//
// If the same submission was accepted with this key before, Submit returns that
// batch, and completes it if its submission was interrupted. Without an error,
// the batch is accepted even if its state is Submitting: then the sweep queues
// the rest.
func (b *Batches) Submit(ctx context.Context, s Submission) (batch Batch, created bool, err error) {
	return b.submitter.Submit(ctx, s)
}

// Process processes the parcel in a message from one of the partition queues or
// ExpressQueue: it stores the results of its items, queues those that have to be
// repeated, and counts the results. If every item of the batch has a result then,
// Process makes the report. After nil, and after ErrHeld, the caller deletes the
// message; after nil it calls Forget then. It moves the message to the
// dead-letter queue after ErrMessage, and has it delivered again after any other
// error. Process may be called with the same message any number of times, also
// concurrently.
func (b *Batches) Process(ctx context.Context, queueName string, m Message) error {
	return b.worker.Process(ctx, queueName, m)
}

// Forget removes the data stored for a message that was deleted, after Process
// returned nil for it.
func (b *Batches) Forget(ctx context.Context, text string) error { return b.base.Forget(ctx, text) }

// Readable returns the body of a message of batches as text: that of a parcel is
// compressed. It returns any other body as it is.
func (b *Batches) Readable(body []byte) []byte { return b.base.Coders.Readable(body) }

// Sweep completes what a crash interrupted, queues again what was lost of
// batches without progress, and removes what is not needed any more. Call it
// every few minutes. It uses at most half of the time of ctx for unfinished
// batches: half of what is left for each of them, and all of it for the last
// one. Several processes may sweep at once. Sweep continues after an error and
// returns all errors joined.
func (b *Batches) Sweep(ctx context.Context) (Swept, error) { return b.sweeper.Sweep(ctx) }

// Stuck returns the batches with items that failed more than once where this
// process tried them, those with the most attempts first.
func (b *Batches) Stuck() []Stuck { return b.worker.Stuck() }

// Foreign returns what this process has put back in the last ten minutes because
// only other processes can process it. The zero value is nothing.
func (b *Batches) Foreign() Foreign { return b.worker.Foreign() }

// Get returns a batch.
func (b *Batches) Get(ctx context.Context, id string) (Batch, error) { return b.base.Get(ctx, id) }

// Report returns the report of a finished batch. ErrRunning reports that it is
// not finished, ErrFailed that it has none.
func (b *Batches) Report(ctx context.Context, id string, csv bool) ([]byte, error) {
	batch, err := b.Get(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case batch.State == Failed:
		return nil, fmt.Errorf("batch %s, %s: %w", id, batch.Error, ErrFailed)
	case batch.State != Done:
		return nil, fmt.Errorf("batch %s is %s: %w", id, batch.State, ErrRunning)
	}
	content, err := b.base.Reports.Get(ctx, collect.ReportName(id, csv), collect.MaxReport)
	switch {
	case errors.Is(err, table.ErrNotFound):
		return nil, fmt.Errorf("the report of batch %s was removed: %w", id, ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("read the report of batch %s: %w", id, err)
	}
	return content, nil
}
