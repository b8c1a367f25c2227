package work

import (
	"context"
	"errors"
	"fmt"

	"kennel/table"
	"kennel/trace"
)

// Collect counts the results in a message from ResultsQueue. If every item of
// the batch has a result then, Collect makes the report. After nil, the caller
// deletes the message; it moves the message to the dead-letter queue after
// ErrMessage, and has it delivered again after any other error. Collect may be
// called with the same message any number of times, also concurrently.
func (b *Batches) Collect(ctx context.Context, m Message) error {
	r, parent, err := b.readResult(ctx, m.Text)
	if err != nil {
		return fmt.Errorf("collect results: %w", err)
	}
	ctx = trace.Within(ctx, parent)
	trace.Current(ctx).Text(trace.Batch, r.Batch)
	if err := b.collect(ctx, m, r); err != nil {
		return fmt.Errorf("collect parcel %d, try %d, of batch %s: %w", r.Parcel, r.Try, r.Batch, err)
	}
	return nil
}

func (b *Batches) collect(ctx context.Context, m Message, r resultMessage) error {
	var added bool
	var invalid error
	completed := false // by this message
	l, err := b.change(ctx, r.Batch, func(l *ledger) bool {
		added, invalid = l.add(r, r.Operations+b.ofMessage(m))
		completed = added && l.state == Gathering
		return added
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return b.drop(ctx, r)
	case err != nil:
		return err
	case invalid != nil:
		return invalid
	}
	// The message that completes the batch stays until the report is made and
	// what is not needed any more is removed. If this message was counted before,
	// it may be that one, delivered again.
	if completed || !added && (l.state == Gathering || l.ended() && m.Redelivered) {
		err := b.gather(ctx, r.Batch)
		if errors.Is(err, ErrProcessor) {
			// A process that knows the processor makes the report in its sweep.
			if b.foreign.add(err.Error()) {
				b.opt.Log.WarnContext(ctx, "report left to another process", "batch", r.Batch, "error", err.Error())
			}
			return nil
		}
		return err
	}
	return nil
}

// drop removes the results of a parcel whose batch does not exist: it was
// removed before this message, or its dead letter, was done.
func (b *Batches) drop(ctx context.Context, r resultMessage) error {
	b.opt.Log.Info("results of a batch that does not exist were dropped", "batch", r.Batch, "parcel", r.Parcel, "try", r.Try)
	_, err := b.rows.Submit(ctx, table.Write{
		Verb: table.Delete, If: table.AnyVersion,
		Row: table.Row{Partition: r.Batch, Key: parcelID{r.Parcel, r.Try}.key()},
	})
	if errors.Is(err, table.ErrNotFound) {
		return nil
	}
	return err
}
