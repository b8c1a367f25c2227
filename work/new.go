package work

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"kennel/internal/table"
	"kennel/queue"
)

// Bounds of Options. minRetention is longer than a message and the dead letter
// that the Functions host may make of it live, so that none outlives its batch.
const (
	maxPartitions = 1000
	maxBytes      = 256 << 20
	maxItems      = 1_000_000
	minRetention  = 2*queue.TimeToLive + 24*time.Hour
)

// maxParcels bounds the parcels of a batch: the set of counted ones must fit
// into one value of a row. Two neighbouring parcels have more than ParcelItems
// items or more than ParcelBytes together.
const maxParcels = 2*(maxItems/ParcelItems+maxBytes/ParcelBytes) + 1

// Batches is the batches of one app. It is safe for concurrent use.
type Batches struct {
	rows             *table.Table // counts its requests, and so do the others
	staging, reports blobs
	claims           *queue.Claims
	put              Put
	depths           Depths
	surplus          queue.Receiver // nil: none
	processors       map[string]Processor
	opt              Options
	ledgers          ledgers
	working          working
	coders           coders
	stuck            stuck   // items that fail repeatedly
	foreign          foreign // what only other processes can process
	largeFrom        int     // LargeFrom; less in simulations
}

// New returns the batches in these stores. It makes no request.
func New(s Stores, processors map[string]Processor, o *Options) (*Batches, error) {
	opt, err := o.withDefaults()
	if s.Rows == nil || s.Staging == nil || s.Reports == nil || s.Claims == nil || s.Put == nil || s.Depths == nil {
		err = cmp.Or(err, errors.New("a field of Stores is nil"))
	}
	for name, p := range processors {
		if name == "" || p == nil {
			err = cmp.Or(err, fmt.Errorf("processor %q has no name or is nil", name))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("new batches: %w", err)
	}
	rows, err := table.New(countedRows{s.Rows})
	if err != nil {
		return nil, fmt.Errorf("new batches: %w", err)
	}
	return &Batches{
		rows:       rows,
		staging:    blobs{s.Staging},
		reports:    blobs{s.Reports},
		claims:     s.Claims,
		put:        counted(s.Put),
		depths:     s.Depths,
		surplus:    s.Surplus,
		processors: maps.Clone(processors),
		opt:        opt,
		largeFrom:  LargeFrom,
	}, nil
}

func (o *Options) withDefaults() (Options, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	opt.Partitions = cmp.Or(opt.Partitions, 4)
	opt.MaxBytes = cmp.Or(opt.MaxBytes, 64<<20)
	opt.MaxItems = cmp.Or(opt.MaxItems, 500_000)
	opt.Latency = cmp.Or(opt.Latency, 15*time.Minute)
	opt.Retention = cmp.Or(opt.Retention, 30*24*time.Hour)
	opt.Parallel = cmp.Or(opt.Parallel, 8)
	opt.ItemTime = cmp.Or(opt.ItemTime, 30*time.Second)
	opt.HoldTime = cmp.Or(opt.HoldTime, 3*time.Minute)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	switch {
	case opt.Partitions < 1 || opt.Partitions > maxPartitions:
		return opt, fmt.Errorf("option Partitions is %d: use 1 to %d", opt.Partitions, maxPartitions)
	case opt.MaxBytes < 1 || opt.MaxBytes > maxBytes:
		return opt, fmt.Errorf("option MaxBytes is %d: use 1 to %d", opt.MaxBytes, maxBytes)
	case opt.MaxItems < 1 || opt.MaxItems > maxItems:
		return opt, fmt.Errorf("option MaxItems is %d: use 1 to %d", opt.MaxItems, maxItems)
	case opt.Parallel < 1 || opt.Parallel > ParcelItems:
		return opt, fmt.Errorf("option Parallel is %d: use 1 to %d", opt.Parallel, ParcelItems)
	case opt.Retention < minRetention:
		return opt, fmt.Errorf("option Retention is %v: use at least %v, so that no message outlives its batch", opt.Retention, minRetention)
	case min(opt.Latency, opt.ItemTime, opt.HoldTime) < 0:
		return opt, errors.New("option Latency, ItemTime or HoldTime is negative")
	case opt.HostShare < 0:
		return opt, fmt.Errorf("option HostShare is %v, which is negative", opt.HostShare)
	}
	return opt, nil
}
