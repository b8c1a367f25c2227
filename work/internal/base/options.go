package base

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"kennel/queue"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// Options are the optional parts of [Batches]; nil and zero fields mean the
// defaults.
type Options struct {
	Gate model.Gate // default: none, nothing is held

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

// Bounds of Options. minRetention is longer than a message and the dead letter
// that the Functions host may make of it live, so that none outlives its batch.
const (
	MaxPartitions = 1000
	minRetention  = 2*queue.TimeToLive + 24*time.Hour
)

// WithDefaults returns the options with their defaults, and checks them.
func (o *Options) WithDefaults() (Options, error) {
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
	case opt.Partitions < 1 || opt.Partitions > MaxPartitions:
		return opt, fmt.Errorf("work.Options.Partitions is %d: use 1 to %d", opt.Partitions, MaxPartitions)
	case opt.MaxBytes < 1 || opt.MaxBytes > format.MaxBytes:
		return opt, fmt.Errorf("work.Options.MaxBytes is %d: use 1 to %d", opt.MaxBytes, format.MaxBytes)
	case opt.MaxItems < 1 || opt.MaxItems > format.MaxItems:
		return opt, fmt.Errorf("work.Options.MaxItems is %d: use 1 to %d", opt.MaxItems, format.MaxItems)
	case opt.Parallel < 1 || opt.Parallel > model.ParcelItems:
		return opt, fmt.Errorf("work.Options.Parallel is %d: use 1 to %d", opt.Parallel, model.ParcelItems)
	case opt.Retention < minRetention:
		return opt, fmt.Errorf("work.Options.Retention is %v: use at least %v, so that no message outlives its batch", opt.Retention, minRetention)
	case min(opt.Latency, opt.ItemTime, opt.HoldTime) < 0:
		return opt, errors.New("work.Options.Latency, ItemTime or HoldTime is negative")
	case opt.HostShare < 0:
		return opt, fmt.Errorf("work.Options.HostShare is %v, which is negative", opt.HostShare)
	}
	return opt, nil
}
