package work

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kennel/internal/table"
	"kennel/internal/trace"
)

// Ages from which the sweep acts. They are longer than another process that
// does the same needs.
const (
	interrupted = 2 * time.Minute // a submission or a report without progress
	orphaned    = 24 * time.Hour  // staged blobs without a batch
)

const (
	sweepRows  = 100  // of one request
	sweepBlobs = 1000 // of one request
)

// Sweep completes what a crash interrupted, queues again what was lost of
// batches without progress, and removes what is not needed any more. Call it
// every few minutes. It uses at most half of the time of ctx for unfinished
// batches: half of what is left for each of them, and all of it for the last
// one. Several processes may sweep at once. Sweep continues after an error and
// returns all errors joined.
func (b *Batches) Sweep(ctx context.Context) (Swept, error) {
	var swept Swept
	var errs []error
	for _, task := range []struct {
		name string
		do   func(context.Context, *Swept) error
	}{
		{"unfinished batches", b.sweepActive},
		{"old batches", b.sweepOld},
		{"staged blobs", b.sweepStaged},
	} {
		part, cancel := half(ctx)
		if err := task.do(part, &swept); err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", task.name, err))
		}
		cancel()
	}
	return swept, errors.Join(errs...)
}

// half returns a ctx that ends after half of the time that is left.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(end)/2)
	}
	return context.WithCancel(ctx)
}

// rowsOf calls do for each row of a query, page by page, with the time at which
// the page was read by the clock of the store. It continues after an error of
// do.
func (b *Batches) rowsOf(ctx context.Context, q table.Query, do func(context.Context, table.Row, time.Time) error) error {
	var errs []error
	for {
		q.Top = sweepRows
		page, err := b.rows.Query(ctx, q)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		now := page.ReadAt
		if now.IsZero() {
			now = time.Now()
		}
		for i, row := range page.Rows {
			if err := ctx.Err(); err != nil {
				return errors.Join(append(errs, err)...)
			}
			part, cancel := ctx, context.CancelFunc(func() {})
			if isLast := page.Next == "" && i == len(page.Rows)-1; !isLast {
				part, cancel = half(ctx)
			}
			if err := do(part, row, now); err != nil {
				errs = append(errs, err)
			}
			cancel()
		}
		if q.After = page.Next; q.After == "" {
			return errors.Join(errs...)
		}
	}
}

// sweepActive completes or restarts unfinished batches, beginning with the
// oldest, and moves messages of partition queues that the app had when these
// batches were submitted.
func (b *Batches) sweepActive(ctx context.Context, swept *Swept) error {
	partitions := b.opt.Partitions
	err := b.rowsOf(ctx, table.Query{Partition: activeIn}, func(ctx context.Context, row table.Row, now time.Time) error {
		d, err := readDetails(row.Values[detailsColumn])
		if err != nil {
			return err
		}
		if d.Parcels > expressParcels {
			partitions = max(partitions, d.Partitions)
		}
		if now.Sub(row.WrittenAt) < interrupted {
			return nil
		}
		return b.sweepBatch(ctx, d, now, swept)
	})
	var errs []error
	for n := b.opt.Partitions; n < partitions && b.surplus != nil && ctx.Err() == nil; n++ {
		if err := b.move(ctx, n, swept); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, err)...)
}

// sweepBatch completes or restarts one batch if it has made no progress.
func (b *Batches) sweepBatch(ctx context.Context, d details, now time.Time, swept *Swept) (err error) {
	l, err := b.ledger(ctx, d.ID)
	isAccepted := err == nil
	if isAccepted && !l.ended() {
		if v := b.view(ctx, l); v.LateBy > 0 {
			if swept.Late++; v.LateBy > swept.LateMost.LateBy {
				swept.LateMost = v
			}
		}
	}
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	case isAccepted && now.Sub(l.writtenAt) < interrupted:
		return nil
	case isAccepted && l.state == Running:
		return b.sweepRunning(ctx, l, now, swept)
	}
	ctx, span := startSpan(trace.Within(ctx, d.TraceParent), "complete", d.ID)
	defer func() { endSpan(span, err) }()
	switch {
	case !isAccepted:
		_, _, err = b.complete(ctx, d, nil)
	case l.state == Submitting:
		_, _, err = b.complete(ctx, d, &l)
	case l.state == Gathering:
		err = b.gather(ctx, d.ID)
	default:
		err = b.cleanUp(ctx, l)
	}
	if err == nil {
		swept.Completed++
	}
	return err
}

// move moves the messages of a partition queue that the app has no more. A
// message is put before it is deleted, so after a crash it may be in both.
func (b *Batches) move(ctx context.Context, n int, swept *Swept) error {
	from, to := PartitionQueue(n), PartitionQueue(n%b.opt.Partitions)
	for {
		part, cancel := context.WithTimeout(ctx, table.TryTimeout)
		messages, err := b.surplus.Receive(part, from, moveMessages, moveLease)
		cancel()
		if err != nil {
			return fmt.Errorf("move messages of %s: %w", from, err)
		}
		if len(messages) == 0 {
			return nil
		}
		for _, m := range messages {
			part, cancel := context.WithTimeout(ctx, table.TryTimeout)
			err := b.put(part, to, m.Body, 0)
			if err == nil {
				err = b.surplus.Delete(part, from, m)
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
func (b *Batches) sweepOld(ctx context.Context, swept *Swept) error {
	before := time.Now().Add(-b.opt.Retention)
	q := table.Query{Partition: listIn, Above: oldest, Below: oldest + idAt(before)}
	return b.rowsOf(ctx, q, func(ctx context.Context, row table.Row, _ time.Time) error {
		d, final, err := readListRow(row)
		if err != nil || final == nil || final.FinishedAt.After(before) {
			return err
		}
		if err := b.remove(ctx, d); err != nil {
			return fmt.Errorf("remove batch %s: %w", d.ID, err)
		}
		swept.Removed++
		return nil
	})
}

// remove removes a finished batch. Its ledger goes first: from then on, Process
// drops the results that a late message still inserts. Its rows in the lists go
// last, so that the next sweep continues after a crash.
func (b *Batches) remove(ctx context.Context, d details) error {
	if err := b.deleteRows(ctx, []table.Row{{Partition: d.ID, Key: ledgerKey}}); err != nil {
		return err
	}
	q := table.Query{Partition: d.ID, Above: resultKey, Below: resultEnd, KeysOnly: true, Top: table.MaxTransaction}
	for {
		page, err := b.rows.Query(ctx, q)
		if err != nil {
			return err
		}
		if err := b.deleteRows(ctx, page.Rows); err != nil {
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
	for _, name := range []string{reportName(d.ID, false), reportName(d.ID, true)} {
		if err := b.reports.delete(ctx, name); err != nil {
			return err
		}
	}
	if err := b.dropKey(ctx, d); err != nil {
		return err
	}
	var rows []table.Row
	for _, w := range listRows(d, nil) {
		rows = append(rows, w.Row)
	}
	return b.deleteRows(ctx, rows)
}

// deleteRows deletes rows of one partition. If one is missing, it deletes none:
// another process has just deleted that one or all.
func (b *Batches) deleteRows(ctx context.Context, rows []table.Row) error {
	if len(rows) == 0 {
		return nil
	}
	writes := make([]table.Write, len(rows))
	for i, row := range rows {
		writes[i] = table.Write{Verb: table.Delete, Row: table.Row{Partition: row.Partition, Key: row.Key}, If: table.AnyVersion}
	}
	_, err := b.rows.Submit(ctx, writes...)
	if errors.Is(err, table.ErrNotFound) {
		return nil
	}
	return err
}

// sweepStaged deletes staged blobs of batches that were never recorded. It
// reads the oldest names only.
func (b *Batches) sweepStaged(ctx context.Context, swept *Swept) error {
	names, err := b.staging.list(ctx, sweepBlobs)
	if err != nil {
		return err
	}
	before := time.Now().Add(-orphaned)
	orphans := make(map[string]bool) // by ID
	for _, name := range names {
		id, _, _ := strings.Cut(name, "/")
		at, err := idTimeOf(id)
		if err != nil {
			continue // another program's
		}
		if at.After(before) {
			return nil
		}
		isOrphan, known := orphans[id]
		if !known {
			_, err := b.rows.Get(ctx, activeIn, id)
			if isOrphan = errors.Is(err, table.ErrNotFound); err != nil && !isOrphan {
				return err
			}
			orphans[id] = isOrphan
		}
		if isOrphan {
			if err := b.staging.delete(ctx, name); err != nil {
				return err
			}
			swept.Orphans++
		}
	}
	return nil
}
