// Package submit accepts batches: it reads, packs and stages their items, and
// queues the parcels.
package submit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"kennel/internal/table"
	"kennel/internal/trace"
	"kennel/work/internal/format"
	"kennel/work/internal/items"
	"kennel/work/internal/model"
	"kennel/work/internal/store"
)

// Submit accepts a batch: it reads, validates and stores all items, and then
// queues them. If an item is invalid, or the body cannot be read to its end,
// nothing is stored; see [ItemErrors] and ErrTooLarge. After an error that wraps
// table.ErrUnclear, the batch may be processed all the same.
//
// If the same submission was accepted with this key before, Submit returns that
// batch, and completes it if its submission was interrupted. Without an error,
// the batch is accepted even if its state is Submitting: then the sweep queues
// the rest.
func (s *Submitter) Submit(ctx context.Context, sub model.Submission) (batch model.Batch, created bool, err error) {
	ctx, spent := store.WithTally(ctx)
	processor := s.Processors[sub.Processor]
	if processor == nil {
		return model.Batch{}, false, fmt.Errorf("%.80q: %w", sub.Processor, model.ErrProcessor)
	}
	if len(sub.Name) > model.MaxName || !utf8.ValidString(sub.Name) || strings.ContainsFunc(sub.Name, unicode.IsControl) {
		return model.Batch{}, false, fmt.Errorf("%w: use up to %d bytes without control characters", model.ErrName, model.MaxName)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	d := format.Details{ID: model.NewID(now), Name: sub.Name, Processor: sub.Processor, SubmittedAt: now, Partitions: s.Options.Partitions, TraceParent: trace.Parent(ctx)}
	trace.Current(ctx).Text(trace.Batch, d.ID)
	if sub.Key != "" {
		d.Key = format.KeyOf(sub.Key)
		k, found, err := s.Store.ReadKey(ctx, d.Key)
		switch {
		case err != nil:
			return model.Batch{}, false, err
		case found && k.IsValid(now):
			return s.repeat(ctx, k, sub)
		}
	}
	if err := s.stage(ctx, &d, sub, processor); err != nil {
		return model.Batch{}, false, err
	}
	d.Operations = spent.Total() + 1
	if err := s.record(ctx, d); err != nil {
		return model.Batch{}, false, err
	}
	l, winner, err := s.Complete(ctx, d, nil)
	switch {
	case winner.Batch != "" && winner.Digest != d.Digest:
		return model.Batch{}, false, fmt.Errorf("batch %s: %w", winner.Batch, model.ErrKeyReused)
	case winner.Batch != "":
		batch, err = s.resume(ctx, winner.Batch)
		return batch, false, err
	case err != nil && l.State == "":
		return model.Batch{}, false, table.Unclear(err)
	case err != nil: // the batch is accepted
		s.Options.Log.WarnContext(ctx, "cannot queue a batch; the sweep completes it", "batch", d.ID, "error", err)
	}
	return s.View(ctx, l), true, nil
}

// stage reads the body, and stages its items. It sets what the body determines
// of the details. After an error, it deletes what was staged.
func (s *Submitter) stage(ctx context.Context, d *format.Details, sub model.Submission, processor model.Processor) error {
	staged := false
	defer func() {
		if !staged { // also if Validate panics
			s.discard(ctx, *d)
		}
	}()
	r, err := items.NewReader(sub, s.Options.MaxBytes)
	if err != nil {
		return err
	}
	p := Packer{S: s, D: d, Each: model.ParcelItems, largest: model.ParcelItems}
	if sized, ok := processor.(model.Sized); ok {
		p.largest = min(sized.ParcelItems(), model.LargeParcel)
	}
	if err = r.Read(ctx, s.Options.MaxItems, processor.Validate, p.Add); err == nil {
		err = p.Close(ctx)
	}
	if err != nil {
		return err
	}
	d.Digest = r.Digest()
	staged = true
	return nil
}

// discard deletes the staged data of a batch that does not exist.
func (s *Submitter) discard(ctx context.Context, d format.Details) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	if err := s.Staging.Unstage(ctx, d); err != nil {
		s.Options.Log.WarnContext(ctx, "cannot delete staged parcels; the sweep does it", "batch", d.ID, "error", err)
	}
}

// record inserts the row that makes the batch exist.
func (s *Submitter) record(ctx context.Context, d format.Details) error {
	row := d.ActiveRow()
	_, err := s.Store.Rows.Submit(ctx, table.Write{Verb: table.Insert, Row: row})
	if err == nil {
		return nil
	}
	stored, found, readErr := s.Store.Rows.ReadBack(ctx, err, row.Partition, row.Key)
	switch {
	case readErr == nil && found && stored.Values[format.DetailsColumn] == row.Values[format.DetailsColumn]:
		return nil
	case errors.Is(err, table.ErrUnclear):
		// The row may still arrive, and then requires what was staged.
		return fmt.Errorf("record the batch: %w", table.Unclear(err))
	case !found:
		s.discard(ctx, d)
	}
	return fmt.Errorf("record the batch: %w", err)
}

// repeat returns the batch that has the key of a submission, if the submission
// is the same.
func (s *Submitter) repeat(ctx context.Context, k format.KeyRow, sub model.Submission) (model.Batch, bool, error) {
	r, err := items.NewReader(sub, s.Options.MaxBytes)
	if err == nil {
		err = r.Skim()
	}
	switch {
	case err != nil:
		return model.Batch{}, false, err
	case r.Digest() != k.Digest:
		return model.Batch{}, false, fmt.Errorf("batch %s: %w", k.Batch, model.ErrKeyReused)
	}
	batch, err := s.resume(ctx, k.Batch)
	return batch, false, err
}

// resume returns a batch, and completes its submission before that.
func (s *Submitter) resume(ctx context.Context, id string) (model.Batch, error) {
	row, err := s.Store.Rows.Get(ctx, format.ActiveIn, id)
	switch {
	case errors.Is(err, table.ErrNotFound): // it is finished
		return s.Get(ctx, id)
	case err != nil:
		return model.Batch{}, fmt.Errorf("read batch %s: %w", id, err)
	}
	d, err := format.ReadDetails(row.Values[format.DetailsColumn])
	if err != nil {
		return model.Batch{}, err
	}
	var known *format.BatchRow
	switch l, err := s.Store.BatchRow(ctx, id); {
	case err == nil:
		known = &l
	case !errors.Is(err, model.ErrNotFound):
		return model.Batch{}, err
	}
	l, _, err := s.Complete(ctx, d, known)
	if err != nil {
		return model.Batch{}, err
	}
	return s.View(ctx, l), nil
}
