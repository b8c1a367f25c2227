// Package base is what all steps of a batch use: the stores, the processors, the
// options, and how parcels are put into queues and taken from messages.
package base

import (
	"cmp"
	"errors"
	"fmt"
	"maps"

	"kennel/internal/table"
	"kennel/queue"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
	"kennel/work/internal/store"
)

// Base is what all steps of batches use: the stores, the processors, and the
// options.
type Base struct {
	Store            *store.Store
	Staging, Reports store.Blobs // count their requests, as the store does
	Claims           *queue.Claims
	Put              model.Put
	Depths           model.Depths
	Surplus          queue.Receiver // nil: none
	Processors       map[string]model.Processor
	Options          Options
	Coders           format.Coders
}

// Stores is where batches are stored.
type Stores struct {
	Rows    table.Store     // batches and results
	Staging queue.Container // the parcels of unfinished batches
	Reports queue.Container
	Claims  *queue.Claims // packs messages; of stores of its own
	Put     model.Put
	Depths  model.Depths

	// Surplus receives from partition queues that the app does not have any
	// more. Its messages have texts as Put gets them. Nil: they are not moved.
	Surplus queue.Receiver
}

// New checks the parts of batches.
func New(s Stores, processors map[string]model.Processor, options *Options) (*Base, error) {
	opt, err := options.WithDefaults()
	if s.Rows == nil || s.Staging == nil || s.Reports == nil || s.Claims == nil || s.Put == nil || s.Depths == nil {
		err = cmp.Or(err, errors.New("a field of work.Stores is nil"))
	}
	for name, p := range processors {
		if name == "" || p == nil {
			err = cmp.Or(err, fmt.Errorf("processor %q has no name or is nil", name))
		}
	}
	if err != nil {
		return nil, err
	}
	rows, err := store.New(s.Rows)
	if err != nil {
		return nil, err
	}
	return &Base{
		Store:      rows,
		Staging:    store.Blobs{Container: s.Staging},
		Reports:    store.Blobs{Container: s.Reports},
		Claims:     s.Claims,
		Put:        store.CountPuts(s.Put),
		Depths:     s.Depths,
		Surplus:    s.Surplus,
		Processors: maps.Clone(processors),
		Options:    opt,
	}, nil
}
