// Package store reads and changes the stored data of batches: their rows, with
// the one row of each batch that many processes change at the same time
// (change.go), and the blobs of staged parcels. It counts the requests that it
// makes for a batch (tally.go).
package store

import "kennel/internal/table"

// Store reads and changes the rows of batches.
type Store struct {
	Rows    *table.Table // counts its requests
	cache   cache
	Working working
}

func New(rows table.Store) (*Store, error) {
	counted, err := table.New(countedRows{rows})
	if err != nil {
		return nil, err
	}
	return &Store{Rows: counted}, nil
}
