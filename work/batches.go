package work

import (
	"context"
	"log/slog"
	"time"

	"kennel/internal/names"
	"kennel/internal/table"
	"kennel/queue"
)

// ExpressQueue is a queue of parcels. The parcels of a batch are spread over the partition
// queues work-0, work-1 and so on. Those of a small batch go to ExpressQueue, so
// that it does not wait behind a large one.
const ExpressQueue = names.ExpressQueue

// Stores is where batches are stored.
type Stores struct {
	Rows    table.Store     // batches and results
	Staging queue.Container // the parcels of unfinished batches
	Reports queue.Container
	Claims  *queue.Claims // packs messages; of stores of its own
	Put     Put
	Depths  Depths

	// Surplus receives from partition queues that the app does not have any
	// more. Its messages have texts as Put gets them. Nil: they are not moved.
	Surplus queue.Receiver
}

// Options are the optional parts of [Batches]; nil and zero fields mean the
// defaults.
type Options struct {
	Gate Gate // default: none, nothing is held

	Partitions int           // default 4
	MaxBytes   int64         // of a body after decompression; default 64 MiB
	MaxItems   int           // of a batch; default 500,000
	Latency    time.Duration // from submission to report; later is late; default 15 min
	Retention  time.Duration // of finished batches; default 30 days
	Parallel   int           // items of a parcel at the same time; default 8
	ItemTime   time.Duration // of one try of an item; default 30 s
	HoldTime   time.Duration // of a message at a closed gate; default 3 min

	// HostShare is an estimate of the requests that the Functions host makes for
	// one message, which this process cannot count; default 0. If it is set, the
	// operations of batches are reported as modelled.
	HostShare float64

	// ReadLarge reports whether all processes of the app can read large parcels.
	// It is called in the submission of a large batch. Default: they can.
	ReadLarge func(ctx context.Context) bool

	Log *slog.Logger // default: discard
}

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

// Swept is what a sweep did.
type Swept struct {
	Completed int // batches whose submission or report was completed
	Restarted int // batches without progress, whose missing parcels were queued again
	Removed   int // batches after their retention
	Orphans   int // staged blobs of batches that were never recorded
	Moved     int // messages of partition queues beyond the number of partitions

	Late     int   // unfinished batches that are late, and not held
	LateMost Batch // that of them that is late by the longest time
}
