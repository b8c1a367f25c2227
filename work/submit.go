package work

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
	"kennel/work/internal/items"
)

// discardTime bounds the clean-up after a submission that failed, which goes on
// when its caller has gone.
const discardTime = 10 * time.Second

// Submit accepts a batch: it reads, validates and stores all items, and then
// queues them. If an item is invalid, or the body cannot be read to its end,
// nothing is stored; see [ItemErrors] and ErrTooLarge. After an error that wraps
// table.ErrUnclear, the batch may be processed all the same.
//
// If the same submission was accepted with this key before, Submit returns that
// batch, and completes it if its submission was interrupted. Without an error,
// the batch is accepted even if its state is Submitting: then the sweep queues
// the rest.
func (b *Batches) Submit(ctx context.Context, s Submission) (batch Batch, created bool, err error) {
	ctx, spent := withTally(ctx)
	processor := b.processors[s.Processor]
	if processor == nil {
		return Batch{}, false, fmt.Errorf("%.80q: %w", s.Processor, ErrProcessor)
	}
	if len(s.Name) > MaxName || !utf8.ValidString(s.Name) || strings.ContainsFunc(s.Name, unicode.IsControl) {
		return Batch{}, false, fmt.Errorf("%w: use up to %d bytes without control characters", ErrName, MaxName)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	d := details{ID: newID(now), Name: s.Name, Processor: s.Processor, SubmittedAt: now, Partitions: b.opt.Partitions, TraceParent: trace.Parent(ctx)}
	trace.Current(ctx).Text(trace.Batch, d.ID)
	if s.Key != "" {
		d.Key = keyOf(s.Key)
		k, found, err := b.readKey(ctx, d.Key)
		switch {
		case err != nil:
			return Batch{}, false, err
		case found && k.isValid(now):
			return b.repeat(ctx, k, s)
		}
	}
	if err := b.stage(ctx, &d, s, processor); err != nil {
		return Batch{}, false, err
	}
	d.Operations = spent.total() + 1
	if err := b.record(ctx, d); err != nil {
		return Batch{}, false, err
	}
	l, winner, err := b.complete(ctx, d, nil)
	switch {
	case winner.batch != "" && winner.digest != d.Digest:
		return Batch{}, false, fmt.Errorf("batch %s: %w", winner.batch, ErrKeyReused)
	case winner.batch != "":
		batch, err = b.resume(ctx, winner.batch)
		return batch, false, err
	case err != nil && l.state == "":
		return Batch{}, false, table.Unclear(err)
	case err != nil: // the batch is accepted
		b.opt.Log.WarnContext(ctx, "cannot queue a batch; the sweep completes it", "batch", d.ID, "error", err)
	}
	return b.view(ctx, l), true, nil
}

// stage reads the body, and stages its items. It sets what the body determines
// of the details. After an error, it deletes what was staged.
func (b *Batches) stage(ctx context.Context, d *details, s Submission, processor Processor) error {
	staged := false
	defer func() {
		if !staged { // also if Validate panics
			b.discard(ctx, *d)
		}
	}()
	r, err := items.NewReader(s, b.opt.MaxBytes)
	if err != nil {
		return err
	}
	p := packer{b: b, d: d, each: ParcelItems, largest: ParcelItems}
	if sized, ok := processor.(Sized); ok {
		p.largest = min(sized.ParcelItems(), LargeParcel)
	}
	if err = r.Read(ctx, b.opt.MaxItems, processor.Validate, p.add); err == nil {
		err = p.close(ctx)
	}
	if err != nil {
		return err
	}
	d.Digest = r.Digest()
	staged = true
	return nil
}

// discard deletes what was staged of a batch that does not exist.
func (b *Batches) discard(ctx context.Context, d details) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	if err := b.unstage(ctx, d); err != nil {
		b.opt.Log.WarnContext(ctx, "cannot delete staged parcels; the sweep does it", "batch", d.ID, "error", err)
	}
}

// record inserts the row that makes the batch exist.
func (b *Batches) record(ctx context.Context, d details) error {
	row := d.activeRow()
	_, err := b.rows.Submit(ctx, table.Write{Verb: table.Insert, Row: row})
	if err == nil {
		return nil
	}
	stored, found, readErr := b.rows.ReadBack(ctx, err, row.Partition, row.Key)
	switch {
	case readErr == nil && found && stored.Values[detailsColumn] == row.Values[detailsColumn]:
		return nil
	case errors.Is(err, table.ErrUnclear):
		// The row may still arrive, and then requires what was staged.
		return fmt.Errorf("record the batch: %w", table.Unclear(err))
	case !found:
		b.discard(ctx, d)
	}
	return fmt.Errorf("record the batch: %w", err)
}

// activeRow returns the row of an unfinished batch.
func (d details) activeRow() table.Row {
	return table.Row{Partition: activeIn, Key: d.ID, Values: map[string]string{detailsColumn: d.text()}}
}

// repeat returns the batch that has the key of a submission, if the submission
// is the same.
func (b *Batches) repeat(ctx context.Context, k keyRow, s Submission) (Batch, bool, error) {
	r, err := items.NewReader(s, b.opt.MaxBytes)
	if err == nil {
		err = r.Skim()
	}
	switch {
	case err != nil:
		return Batch{}, false, err
	case r.Digest() != k.digest:
		return Batch{}, false, fmt.Errorf("batch %s: %w", k.batch, ErrKeyReused)
	}
	batch, err := b.resume(ctx, k.batch)
	return batch, false, err
}

// resume returns a batch, and completes its submission before that.
func (b *Batches) resume(ctx context.Context, id string) (Batch, error) {
	row, err := b.rows.Get(ctx, activeIn, id)
	switch {
	case errors.Is(err, table.ErrNotFound): // it is finished
		return b.Get(ctx, id)
	case err != nil:
		return Batch{}, fmt.Errorf("read batch %s: %w", id, err)
	}
	d, err := readDetails(row.Values[detailsColumn])
	if err != nil {
		return Batch{}, err
	}
	var known *ledger
	switch l, err := b.ledger(ctx, id); {
	case err == nil:
		known = &l
	case !errors.Is(err, ErrNotFound):
		return Batch{}, err
	}
	l, _, err := b.complete(ctx, d, known)
	if err != nil {
		return Batch{}, err
	}
	return b.view(ctx, l), nil
}
