package sweep

import (
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

// Swept counts the results of a sweep.
type Swept struct {
	Completed int // batches whose submission or report was completed
	Restarted int // batches without progress, whose missing parcels were queued again
	Removed   int // batches after their retention
	Orphans   int // staged blobs of batches that were never recorded
	Moved     int // messages of partition queues beyond the number of partitions

	Late     int         // unfinished batches that are late, and not held
	LateMost model.Batch // that of them that is late by the longest time
}
