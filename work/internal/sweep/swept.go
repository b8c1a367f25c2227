package sweep

import (
	"kennel/work/internal/model"
)

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
