package base

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"kennel/internal/table"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// Get returns a batch.
func (b *Base) Get(ctx context.Context, id string) (model.Batch, error) {
	if err := model.CheckID(id); err != nil {
		return model.Batch{}, err
	}
	l, err := b.Store.BatchRow(ctx, id)
	if errors.Is(err, model.ErrNotFound) {
		return b.submitting(ctx, id)
	}
	if err != nil {
		return model.Batch{}, err
	}
	return b.View(ctx, l), nil
}

// submitting returns a batch that is recorded but not launched.
func (b *Base) submitting(ctx context.Context, id string) (model.Batch, error) {
	row, err := b.Store.Rows.Get(ctx, format.ActiveIn, id)
	switch {
	case errors.Is(err, table.ErrNotFound):
		return model.Batch{}, fmt.Errorf("batch %s: %w", id, model.ErrNotFound)
	case err != nil:
		return model.Batch{}, fmt.Errorf("read batch %s: %w", id, err)
	}
	d, err := format.ReadDetails(row.Values[format.DetailsColumn])
	if err != nil {
		return model.Batch{}, err
	}
	return b.View(ctx, format.NewBatchRow(d)), nil
}

// View returns a batch as callers see it.
func (b *Base) View(ctx context.Context, l format.BatchRow) model.Batch {
	v := model.Batch{
		ID:                l.Details.ID,
		Name:              l.Details.Name,
		Processor:         l.Details.Processor,
		State:             l.State,
		Error:             l.Err,
		Items:             l.Details.Items,
		Done:              l.Done,
		Rejected:          l.Rejected,
		Failed:            l.Failed,
		Parcels:           l.Details.Parcels,
		SubmittedAt:       l.Details.SubmittedAt,
		StorageOperations: int64(math.Round(l.Operations)),
		Modelled:          b.Options.HostShare > 0,
	}
	if l.Ended() {
		v.FinishedAt = &l.FinishedAt
		v.LateBy = l.LateBy.Seconds()
		return v
	}
	v.Retrying = l.Retrying()
	var opened time.Time // a gate that cannot be read counts as closed
	if b.Options.Gate != nil {
		opened, _ = b.Options.Gate.Opened(ctx)
	}
	v.LateBy = b.Late(l.Details.SubmittedAt, opened, time.Now()).Seconds()
	if l.State == model.Running && b.Options.Gate != nil && opened.IsZero() {
		v.State = model.Held
	}
	return v
}

// Late returns how long after its target a batch ended, or how late it is now.
// While it is held it is not late, and its time begins again when the gate opens:
// opened is since when the gate is open, or zero.
func (b *Base) Late(submitted, opened, now time.Time) time.Duration {
	from := submitted
	if b.Options.Gate != nil {
		if opened.IsZero() {
			return 0
		}
		if opened.After(from) {
			from = opened
		}
	}
	return max(0, now.Sub(from)-b.Options.Latency)
}
