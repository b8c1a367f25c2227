package work

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"kennel/internal/table"
)

// Get returns a batch.
func (b *Batches) Get(ctx context.Context, id string) (Batch, error) {
	if err := CheckID(id); err != nil {
		return Batch{}, err
	}
	l, err := b.ledger(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return b.submitting(ctx, id)
	}
	if err != nil {
		return Batch{}, err
	}
	return b.view(ctx, l), nil
}

// submitting returns a batch that is recorded but not launched.
func (b *Batches) submitting(ctx context.Context, id string) (Batch, error) {
	row, err := b.rows.Get(ctx, activeIn, id)
	switch {
	case errors.Is(err, table.ErrNotFound):
		return Batch{}, fmt.Errorf("batch %s: %w", id, ErrNotFound)
	case err != nil:
		return Batch{}, fmt.Errorf("read batch %s: %w", id, err)
	}
	d, err := readDetails(row.Values[detailsColumn])
	if err != nil {
		return Batch{}, err
	}
	return b.view(ctx, newLedger(d)), nil
}

// view returns a batch as callers see it.
func (b *Batches) view(ctx context.Context, l ledger) Batch {
	v := Batch{
		ID:                l.details.ID,
		Name:              l.details.Name,
		Processor:         l.details.Processor,
		State:             l.state,
		Error:             l.err,
		Items:             l.details.Items,
		Done:              l.done,
		Rejected:          l.rejected,
		Failed:            l.failed,
		Parcels:           l.details.Parcels,
		SubmittedAt:       l.details.SubmittedAt,
		StorageOperations: int64(math.Round(l.operations)),
		Modelled:          b.opt.HostShare > 0,
	}
	if l.ended() {
		v.FinishedAt = &l.finishedAt
		v.LateBy = l.lateBy.Seconds()
		return v
	}
	v.Retrying = l.retrying()
	var opened time.Time // a gate that cannot be read counts as closed
	if b.opt.Gate != nil {
		opened, _ = b.opt.Gate.Opened(ctx)
	}
	v.LateBy = b.late(l.details.SubmittedAt, opened, time.Now()).Seconds()
	if l.state == Running && b.opt.Gate != nil && opened.IsZero() {
		v.State = Held
	}
	return v
}

// late returns how long after its target a batch ended, or how late it is now.
// While it is held it is not late, and its time begins again when the gate opens:
// opened is since when the gate is open, or zero.
func (b *Batches) late(submitted, opened, now time.Time) time.Duration {
	from := submitted
	if b.opt.Gate != nil {
		if opened.IsZero() {
			return 0
		}
		if opened.After(from) {
			from = opened
		}
	}
	return max(0, now.Sub(from)-b.opt.Latency)
}

// Report returns the report of a finished batch. ErrRunning reports that it is
// not finished, ErrFailed that it has none.
func (b *Batches) Report(ctx context.Context, id string, csv bool) ([]byte, error) {
	batch, err := b.Get(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case batch.State == Failed:
		return nil, fmt.Errorf("batch %s, %s: %w", id, batch.Error, ErrFailed)
	case batch.State != Done:
		return nil, fmt.Errorf("batch %s is %s: %w", id, batch.State, ErrRunning)
	}
	content, err := b.reports.get(ctx, reportName(id, csv), maxReport)
	switch {
	case errors.Is(err, table.ErrNotFound):
		return nil, fmt.Errorf("the report of batch %s was removed: %w", id, ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("read the report of batch %s: %w", id, err)
	}
	return content, nil
}
