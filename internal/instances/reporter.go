package instances

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"kennel/internal/table"
)

// When a process writes its row: after renewEvery, or up to a tenth of it
// earlier; and at once when there is news, but never twice within minPause. A
// failed write is not repeated before the next one is due. renewEvery is a
// multiple of checkEvery, so no row is older than that.
const (
	checkEvery = 2 * time.Second // for news
	renewEvery = 30 * time.Second
	minPause   = 5 * time.Second
	maxFirst   = 5 * time.Second // until the first write

	sweepEvery = time.Hour
	maxSweep   = 10 * time.Minute // until the first sweep

	callTimeout = 5 * time.Second // of one request
)

// Reporter keeps the row of this process, and removes rows that were not
// written for a day.
type Reporter struct {
	self *Self
	rows table.Store
	log  *slog.Logger

	mayExist atomic.Bool // the row
}

// NewReporter returns a reporter that writes to the instance table.
func NewReporter(self *Self, rows table.Store, log *slog.Logger) *Reporter {
	return &Reporter{self: self, rows: rows, log: log}
}

// Run writes the row and removes old ones until ctx ends. It returns nil: if
// the table fails, the app works without. Call Close afterwards.
func (r *Reporter) Run(ctx context.Context) error {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	began := time.Now()
	renewAt := began.Add(rand.N(maxFirst))
	sweepAt := began.Add(rand.N(maxSweep))
	var triedAt time.Time
	var reported string
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		now := time.Now()
		isDue := !now.Before(renewAt)
		if isDue || now.Sub(triedAt) >= minPause && r.self.news() != reported {
			triedAt, renewAt = now, now.Add(jittered(renewEvery))
			reported = r.write(ctx)
		}
		if !now.Before(sweepAt) {
			sweepAt = now.Add(jittered(sweepEvery))
			r.sweep(ctx)
		}
	}
}

// jittered is a hundredth to a tenth less than d, so that processes that started together
// do not stay together.
func jittered(d time.Duration) time.Duration { return d*99/100 - rand.N(d*9/100) }

// write writes the row and returns the news in it, whether or not the write
// succeeds: news that cannot be written must not cause more requests.
func (r *Reporter) write(ctx context.Context) (reported string) {
	renewals := r.self.renewals.Load() // before the report, which has at least these
	report := r.self.next()
	reported = newsOf(report.Problems, renewals)
	written, err := row(report)
	if err == nil {
		r.mayExist.Store(true)
		one, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		_, err = r.rows.Submit(one, table.Write{Verb: table.Upsert, Row: written})
	}
	if err != nil && ctx.Err() == nil {
		r.log.Warn("cannot write the row of this instance; other instances do not see it", "error", err)
	}
	return reported
}

// Close removes the row of this process, so that it does not count for another
// two minutes.
func (r *Reporter) Close(ctx context.Context) error {
	if !r.mayExist.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := r.rows.Submit(ctx, remove(table.Row{Partition: partition, Key: r.self.Name()}, table.AnyVersion))
	if err != nil && !errors.Is(err, table.ErrNotFound) {
		return fmt.Errorf("remove the row of this instance, which counts for another %v: %w", LiveFor, err)
	}
	return nil
}

// sweep removes the rows of processes that ended long ago without removing
// them. Each process does it, so that no process has to be there for it.
func (r *Reporter) sweep(ctx context.Context) {
	if err := r.sweepOnce(ctx); err != nil && ctx.Err() == nil {
		r.log.Warn("cannot remove old rows of the instance table", "error", err)
	}
}

func (r *Reporter) sweepOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	all, at, err := table.ReadPartition(ctx, r.rows, partition)
	if err != nil {
		return err
	}
	var old []table.Write
	for _, row := range all {
		if at.Sub(row.WrittenAt) > keepFor {
			old = append(old, remove(row, row.Version)) // unless the process writes it now
		}
	}
	for some := range slices.Chunk(old, table.MaxTransaction) {
		_, err := r.rows.Submit(ctx, some...)
		if err != nil && !table.IsConflict(err) { // another process sweeps, too
			return err
		}
	}
	return nil
}

func remove(row table.Row, version string) table.Write {
	return table.Write{Verb: table.Delete, Row: table.Row{Partition: row.Partition, Key: row.Key}, If: version}
}
