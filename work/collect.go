package work

import (
	"context"
	"errors"
	"time"

	"kennel/internal/table"
)

// countResults counts a row of results in the ledger, and returns it; m is the
// message that led to it. again, if it is not nil, is recorded by the same write.
// If every item of the batch has a result then, countResults makes the report.
// took is how long the results took, of which they may wait a part for others. The
// ledger has no state if the batch does not exist. countResults may be called any
// number of times with the same row, also concurrently.
func (b *Batches) countResults(ctx context.Context, m Message, batch string, row resultRow, again *retry, took time.Duration) (ledger, error) {
	var added bool
	var invalid error
	completed := false // by this row
	l, err := b.changeWith(ctx, batch, took/patiencePart, func(l *ledger) bool {
		added, invalid = l.add(row)
		completed = added && l.state == Gathering
		if added && again != nil {
			l.addRetry(*again)
		}
		return added
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return ledger{}, b.drop(ctx, batch, row.id)
	case err != nil:
		return ledger{}, err
	case invalid != nil:
		return ledger{}, invalid
	}
	// The message that completes the batch stays until the report is made and
	// what is not needed any more is removed. If its row was counted before, it
	// may be that one, delivered again.
	if completed || !added && (l.state == Gathering || l.ended() && m.Redelivered) {
		return l, b.gather(ctx, batch)
	}
	return l, nil
}

// drop removes the results of a parcel whose batch does not exist: it was
// removed before this message, or its dead letter, was done.
func (b *Batches) drop(ctx context.Context, batch string, id parcelID) error {
	b.opt.Log.Info("results of a batch that does not exist were dropped", "batch", batch, "parcel", id.Parcel, "try", id.Try)
	_, err := b.rows.Submit(ctx, table.Write{
		Verb: table.Delete, If: table.AnyVersion,
		Row: table.Row{Partition: batch, Key: id.key()},
	})
	if errors.Is(err, table.ErrNotFound) {
		return nil
	}
	return err
}
