package sweep

import (
	"time"

	"kennel/work/internal/base"
	"kennel/work/internal/collect"
	"kennel/work/internal/model"
	"kennel/work/internal/submit"
)

// Sweeper completes and removes batches.
type Sweeper struct {
	*base.Base
	Collector *collect.Collector
	Submitter *submit.Submitter
}

// UntoldTries is from how many calls on that failed an end that was not told
// counts.
const UntoldTries = 3

// Untold is an ended batch whose processor failed to be told.
type Untold struct {
	Batch, Processor string
	Tries            int       // that failed
	Error            string    // of the last one
	NextAt           time.Time // when it is called again, at the earliest
}

// Swept counts the results of a sweep.
type Swept struct {
	Completed int // batches whose submission or report was completed
	Restarted int // batches without progress, whose missing parcels were queued again
	Removed   int // batches after their retention
	Orphans   int // staged blobs of batches that were never recorded
	Moved     int // messages of partition queues beyond the number of partitions

	// Untold counts ended batches whose processor failed at least UntoldTries times
	// to be told, and is called again.
	Untold     int
	UntoldMost Untold // that of them with the most tries

	Late     int         // unfinished batches that are late, and not held
	LateMost model.Batch // that of them that is late by the longest time
}
