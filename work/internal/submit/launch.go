package submit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/table"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
	"kennel/work/internal/store"
)

// discardTime bounds the clean-up after a submission that failed, which goes on
// when its caller has gone.
const discardTime = 10 * time.Second

// Complete completes the submission of a batch that was recorded. It may be
// called by several processes at once, and again after a crash: what was done is
// found, except that parcels may be queued twice. known is the batch's row, or nil if
// the batch has none yet.
//
// If another batch has the key, complete removes this one and returns the winner.
// After an error with a row, the batch is accepted.
func (s *Submitter) Complete(ctx context.Context, d format.Details, known *format.BatchRow) (l format.BatchRow, winner format.KeyRow, err error) {
	ctx, spent := store.WithTally(ctx)
	isNew := false
	if known != nil {
		l = *known
	} else {
		if d.Key != "" {
			winner, err = s.Store.TakeKey(ctx, d)
			if err == nil && winner.Batch != "" {
				err = s.abandon(ctx, d)
			}
			if err != nil || winner.Batch != "" {
				return format.BatchRow{}, winner, err
			}
		}
		if l, isNew, err = s.accept(ctx, d); err != nil {
			return format.BatchRow{}, format.KeyRow{}, err
		}
	}
	if l.State != model.Submitting {
		return l, format.KeyRow{}, nil
	}
	err = s.launch(ctx, l, isNew)
	if errors.Is(err, model.ErrCorrupt) {
		l, err = s.collector.Damaged(ctx, l, err)
		return l, format.KeyRow{}, err
	}
	if err != nil {
		return l, format.KeyRow{}, err
	}
	now := time.Now().UTC()
	launched, err := s.Store.Change(ctx, d.ID, func(l *format.BatchRow) bool {
		if !l.QueuedAt.IsZero() {
			return false
		}
		l.QueuedAt, l.QueuedTo = now, 0
		if l.Operations += spent.Total(); l.State == model.Submitting {
			l.State = model.Running
		}
		return true
	})
	if err != nil {
		return l, format.KeyRow{}, err
	}
	return launched, format.KeyRow{}, nil
}

// abandon removes a batch whose key is that of another one. The row goes last: it
// lets the sweep continue after a crash.
func (s *Submitter) abandon(ctx context.Context, d format.Details) error {
	if err := s.Staging.Unstage(ctx, d); err != nil {
		return err
	}
	_, err := s.Store.Rows.Submit(ctx, table.Write{Verb: table.Delete, Row: table.Row{Partition: format.ActiveIn, Key: d.ID}, If: table.AnyVersion})
	if err != nil && !errors.Is(err, table.ErrNotFound) {
		return fmt.Errorf("abandon batch %s: %w", d.ID, err)
	}
	return nil
}

// accept inserts the batch's row, or returns the one that exists.
func (s *Submitter) accept(ctx context.Context, d format.Details) (l format.BatchRow, isNew bool, err error) {
	l = format.NewBatchRow(d)
	versions, err := s.Store.Rows.Submit(ctx, table.Write{Verb: table.Insert, Row: l.Row()})
	if err == nil {
		l.Version = versions[0]
		return l, true, nil
	}
	row, found, readErr := s.Store.Rows.ReadBack(ctx, err, d.ID, format.BatchKey)
	if readErr == nil && found {
		l, err = format.ReadBatchRow(row)
		return l, false, err
	}
	if readErr != nil {
		err = readErr
	}
	return format.BatchRow{}, false, fmt.Errorf("insert the row of batch %s: %w", d.ID, err)
}

// launch adds a batch to the lists, and puts the parcels that are not queued
// yet into their queues. If it fails, the batch's row keeps how far it came, so that
// the sweep continues there however slow the queues are.
func (s *Submitter) launch(ctx context.Context, l format.BatchRow, isNew bool) error {
	d := l.Details
	_, err := s.Store.Rows.Submit(ctx, format.ListRows(d, nil)...)
	if err != nil && !errors.Is(err, table.ErrExists) {
		return fmt.Errorf("add batch %s to the lists: %w", d.ID, err)
	}
	missing := Missing{Results: new(store.Results), from: l.QueuedTo}
	if !isNew {
		// Parcels that another process queued may have results by now.
		if missing.Results, err = s.Store.ReadResults(ctx, l, nil); err != nil {
			return err
		}
	}
	queuedTo, err := s.PutParcels(ctx, d, missing)
	if err == nil || errors.Is(err, model.ErrCorrupt) || queuedTo == l.QueuedTo {
		return err
	}
	// Recorded although ctx has probably ended: that is why the launch failed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	_, recordErr := s.Store.Change(ctx, d.ID, func(l *format.BatchRow) bool {
		if l.State != model.Submitting || l.QueuedTo >= queuedTo {
			return false
		}
		l.QueuedTo = queuedTo
		return true
	})
	return errors.Join(err, recordErr)
}
