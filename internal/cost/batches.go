package cost

import "math"

// Batch is a batch from its submission to its removal.
type Batch struct {
	Parcels float64
	Chunks  float64 // blobs in which the parcels are staged
	Tries   float64 // of a parcel, on average; 1 if no item fails
	Keyed   bool    // it has an Idempotency-Key

	Hosted     bool    // the Functions host receives and deletes its messages; then the next five are not used
	PerReceive float64 // messages of a receive, as measured
	Empty      float64 // receives that return nothing, for each that returns messages, as measured
	Renewals   float64 // of leases, for each parcel, as measured
	Returns    float64 // of parcels that waited too long for a hand, for each parcel, as measured
	Wakes      float64 // listeners that its signals wake: of each of its queues, in each worker
	PerWrite   float64 // results that one write of the ledger counts, as measured
	Processes  float64 // that write the ledger; each reads it once
}

// results is how many results the batch has: one for each parcel and try.
func (b Batch) results() float64 { return b.Parcels * b.Tries }

// Process returns the requests from the submission of the batch to its report.
func (b Batch) Process() []Line {
	t := tally{job: jobBatches}
	r := b.results()
	keys := 0.0
	if b.Keyed {
		keys = 1
	}
	// Submission: the chunks are staged, and read again to queue the parcels.
	t.add("blob", "put", b.Chunks)
	t.add("blob", "get", b.Chunks)
	t.add("table", "get", 2*keys)
	t.add("table", "insert", 2+keys) // the active row, the ledger, the key
	t.add("table", "transaction", 1) // the lists
	t.add("table", "update", 1)      // queued

	// A message and a row for each parcel and try. Who inserted the row counts it.
	if b.Hosted {
		t.add("queue", "put", r)
		t.lines = append(t.lines, HostMessages(r)...)
	} else {
		t.lines = append(t.lines, Messages{r, b.PerReceive}.Lines(jobBatches)...)
		t.add("queue", emptyReceive, b.Empty*r/b.PerReceive)
		t.add("queue", "head", wakeCounts*b.Wakes)
		t.add("queue", "update", r*(b.Renewals+b.Returns))
		t.add("table", "get", r*b.Returns) // it may have results, so these are read when it comes again
	}
	t.add("table", "insert", r)
	t.add("table", "get", b.Processes)
	t.add("table", "update", r/b.PerWrite)

	// Report and end: the ledger and the active row are read, the results
	// queried, two reports and the lists written.
	t.add("table", "get", 2)
	t.add("table", "query", math.Ceil(r/pageRows))
	t.add("blob", "put", 2)
	t.add("table", "update", 1)
	t.add("table", "transaction", 1)
	t.add("blob", "delete", b.Chunks)
	t.add("table", "delete", 1)
	return sum(t.lines)
}

// Remove returns the requests that remove the batch after its retention.
func (b Batch) Remove() []Line {
	t := tally{job: jobBatches}
	pages := math.Ceil(b.results() / transactionRows)
	t.add("table", "delete", 1)          // the ledger
	t.add("table", "query", pages+1)     // the last one finds nothing
	t.add("table", "transaction", pages) // the results
	t.add("blob", "delete", 2)
	if b.Keyed {
		t.add("table", "get", 1)
		t.add("table", "delete", 1)
	}
	t.add("table", "transaction", 1) // the lists
	return sum(t.lines)
}

// Floor returns the least operations of queues for an item, if parcels of so
// many items are put, received 32 at once and deleted.
func Floor(itemsPerParcel float64) float64 { return (2 + 1.0/32) / itemsPerParcel }
