// Package sweep completes what a crash interrupted, restarts batches without
// progress, and removes old ones.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"kennel/internal/names"
	"kennel/internal/table"
	"kennel/internal/trace"
	"kennel/work/internal/base"
	"kennel/work/internal/collect"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
	"kennel/work/internal/store"
)

// Ages from which the sweep acts. They are longer than another process that
// does the same needs.
const (
	interrupted = 2 * time.Minute // a submission or a report without progress
	orphaned    = 24 * time.Hour  // staged blobs without a batch
)

const (
	sweepBlobs = 1000 // of one request
)

// Sweep completes what a crash interrupted, queues again what was lost of
// batches without progress, and removes what is not needed any more. Call it
// every few minutes. It uses at most half of the time of ctx for unfinished
// batches: half of what is left for each of them, and all of it for the last
// one. Several processes may sweep at once. Sweep continues after an error and
// returns all errors joined.
func (s *Sweeper) Sweep(ctx context.Context) (Swept, error) {
	var swept Swept
	var errs []error
	for _, task := range []struct {
		name string
		do   func(context.Context, *Swept) error
	}{
		{"unfinished batches", s.sweepActive},
		{"old batches", s.sweepOld},
		{"staged blobs", s.sweepStaged},
	} {
		part, cancel := store.Half(ctx)
		if err := task.do(part, &swept); err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", task.name, err))
		}
		cancel()
	}
	return swept, errors.Join(errs...)
}

// sweepActive completes or restarts unfinished batches, beginning with the
// oldest, and moves messages of partition queues that the app had when these
// batches were submitted.
func (s *Sweeper) sweepActive(ctx context.Context, swept *Swept) error {
	partitions := s.Options.Partitions
	var ended []format.BatchRow
	err := s.Store.RowsOf(ctx, table.Query{Partition: format.ActiveIn}, func(ctx context.Context, row table.Row, now time.Time) error {
		d, err := format.ReadDetails(row.Values[format.DetailsColumn])
		if err != nil {
			return err
		}
		if d.Parcels > format.ExpressParcels {
			partitions = max(partitions, d.Partitions)
		}
		if now.Sub(row.WrittenAt) < interrupted {
			return nil
		}
		l, err := s.sweepBatch(ctx, d, now, swept)
		if l != nil {
			ended = append(ended, *l)
		}
		return err
	})
	var errs []error
	for n := s.Options.Partitions; n < partitions && s.Surplus != nil && ctx.Err() == nil; n++ {
		if err := s.move(ctx, n, swept); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, err, s.finish(ctx, ended, swept))...)
}

// finishing is how many ended batches are finished at the same time.
const finishing = 8

// finish cleans up after ended batches, which calls their processors. It comes
// last, because these may take as long as an item, and no unfinished batch is to
// wait for them.
func (s *Sweeper) finish(ctx context.Context, ended []format.BatchRow, swept *Swept) error {
	errs, finished := make([]error, len(ended)), make([]bool, len(ended))
	slots := make(chan struct{}, finishing)
	var running sync.WaitGroup
	for i, l := range ended {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break // the next sweep goes on
		}
		running.Go(func() {
			defer func() { <-slots }()
			ctx, span := base.StartSpan(trace.Within(ctx, l.Details.TraceParent), "complete", l.Details.ID)
			pending, err := s.Collector.CleanUp(ctx, l)
			base.EndSpan(span, err)
			errs[i], finished[i] = err, err == nil && !pending
		})
	}
	running.Wait()
	for _, one := range finished {
		if one {
			swept.Completed++
		}
	}
	return errors.Join(errs...)
}

// sweepBatch completes or restarts one batch if it has made no progress. It
// returns one that has ended and is to be finished.
func (s *Sweeper) sweepBatch(ctx context.Context, d format.Details, now time.Time, swept *Swept) (ended *format.BatchRow, err error) {
	l, err := s.Store.BatchRow(ctx, d.ID)
	isAccepted := err == nil
	if isAccepted && !l.Ended() {
		if v := s.View(ctx, l); v.LateBy > 0 {
			if swept.Late++; v.LateBy > swept.LateMost.LateBy {
				swept.LateMost = v
			}
		}
	}
	if isAccepted && l.Ended() && l.End.Tries >= UntoldTries {
		if swept.Untold++; l.End.Tries > swept.UntoldMost.Tries {
			swept.UntoldMost = Untold{Batch: d.ID, Processor: d.Processor, Tries: l.End.Tries, Error: l.End.Error, NextAt: l.End.NextAt}
		}
	}
	switch {
	case err != nil && !errors.Is(err, model.ErrNotFound):
		return nil, err
	case isAccepted && now.Sub(l.WrittenAt) < interrupted:
		return nil, nil
	case isAccepted && l.State == model.Running:
		return nil, s.sweepRunning(ctx, l, now, swept)
	case isAccepted && l.Ended():
		return &l, nil
	}
	ctx, span := base.StartSpan(trace.Within(ctx, d.TraceParent), "complete", d.ID)
	defer func() { base.EndSpan(span, err) }()
	switch {
	case !isAccepted:
		_, _, err = s.Submitter.Complete(ctx, d, nil)
	case l.State == model.Submitting:
		_, _, err = s.Submitter.Complete(ctx, d, &l)
	default:
		err = s.Collector.Gather(ctx, d.ID)
	}
	if err == nil {
		swept.Completed++
	}
	return nil, err
}

// move moves the messages of a partition queue that the app has no more. A
// message is put before it is deleted, so after a crash it may be in both.
func (s *Sweeper) move(ctx context.Context, n int, swept *Swept) error {
	from, to := names.PartitionQueue(n), names.PartitionQueue(n%s.Options.Partitions)
	for {
		part, cancel := context.WithTimeout(ctx, table.TryTimeout)
		messages, err := s.Surplus.Receive(part, from, moveMessages, moveLease)
		cancel()
		if err != nil {
			return fmt.Errorf("move messages of %s: %w", from, err)
		}
		if len(messages) == 0 {
			return nil
		}
		for _, m := range messages {
			part, cancel := context.WithTimeout(ctx, table.TryTimeout)
			err := s.Put(part, to, m.Body, 0)
			if err == nil {
				err = s.Surplus.Delete(part, from, m)
			}
			cancel()
			if err != nil {
				return fmt.Errorf("move messages of %s to %s: %w", from, to, err)
			}
			swept.Moved++
		}
	}
}

const (
	moveMessages = 32
	moveLease    = 5 * time.Minute
)

// sweepOld removes batches whose retention has ended.
func (s *Sweeper) sweepOld(ctx context.Context, swept *Swept) error {
	before := time.Now().Add(-s.Options.Retention)
	q := table.Query{Partition: format.ListIn, Above: format.Oldest, Below: format.Oldest + model.IdAt(before)}
	return s.Store.RowsOf(ctx, q, func(ctx context.Context, row table.Row, _ time.Time) error {
		d, final, err := format.ReadListRow(row)
		if err != nil || final == nil || final.FinishedAt.After(before) {
			return err
		}
		if err := s.remove(ctx, d); err != nil {
			return fmt.Errorf("remove batch %s: %w", d.ID, err)
		}
		swept.Removed++
		return nil
	})
}

// remove removes a finished batch. Its row goes first: from then on, Process
// drops the results that a late message still inserts. Its rows in the lists go
// last, so that the next sweep continues after a crash.
func (s *Sweeper) remove(ctx context.Context, d format.Details) error {
	if err := s.Store.DeleteRows(ctx, []table.Row{{Partition: d.ID, Key: format.BatchKey}}); err != nil {
		return err
	}
	q := table.Query{Partition: d.ID, Above: format.ResultKey, Below: format.ResultEnd, KeysOnly: true, Top: table.MaxTransaction}
	for {
		page, err := s.Store.Rows.Query(ctx, q)
		if err != nil {
			return err
		}
		if err := s.Store.DeleteRows(ctx, page.Rows); err != nil {
			return err
		}
		// A page may be empty although rows follow it. After one that is not, rows
		// of it may be left.
		q.After = ""
		if len(page.Rows) == 0 {
			if q.After = page.Next; q.After == "" {
				break
			}
		}
	}
	for _, name := range []string{collect.ReportName(d.ID, false), collect.ReportName(d.ID, true)} {
		if err := s.Reports.Delete(ctx, name); err != nil {
			return err
		}
	}
	if err := s.Store.DropKey(ctx, d); err != nil {
		return err
	}
	var rows []table.Row
	for _, w := range format.ListRows(d, nil) {
		rows = append(rows, w.Row)
	}
	return s.Store.DeleteRows(ctx, rows)
}

// sweepStaged deletes staged blobs of batches that were never recorded. It
// reads the oldest names only.
func (s *Sweeper) sweepStaged(ctx context.Context, swept *Swept) error {
	blobs, err := s.Staging.List(ctx, sweepBlobs)
	if err != nil {
		return err
	}
	before := time.Now().Add(-orphaned)
	orphans := make(map[string]bool) // by ID
	for _, name := range blobs {
		id, _, _ := strings.Cut(name, "/")
		at, err := model.IdTimeOf(id)
		if err != nil {
			continue // another program's
		}
		if at.After(before) {
			return nil
		}
		isOrphan, known := orphans[id]
		if !known {
			_, err := s.Store.Rows.Get(ctx, format.ActiveIn, id)
			if isOrphan = errors.Is(err, table.ErrNotFound); err != nil && !isOrphan {
				return err
			}
			orphans[id] = isOrphan
		}
		if isOrphan {
			if err := s.Staging.Delete(ctx, name); err != nil {
				return err
			}
			swept.Orphans++
		}
	}
	return nil
}
