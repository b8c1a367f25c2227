package collect

import (
	"context"
	"errors"
	"time"

	"kennel/internal/table"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
	"kennel/work/internal/store"
)

// CountResults counts a row of results in the row of its batch, and returns that; m is the
// message that led to it. again, if it is not nil, is recorded by the same write.
// If every item of the batch has a result then, CountResults makes the report.
// took is how long the results took, of which they may wait a part for others. The
// row has no state if the batch does not exist. CountResults may be called any
// number of times with the same row, also concurrently.
func (c *Collector) CountResults(ctx context.Context, m model.Message, batch string, row format.ResultRow, again *format.Retry, took time.Duration) (format.BatchRow, error) {
	var added bool
	var invalid error
	completed := false // by this row
	l, err := c.Store.ChangeWith(ctx, batch, took/store.PatiencePart, func(l *format.BatchRow) bool {
		added, invalid = l.Add(row)
		completed = added && l.State == model.Gathering
		if added && again != nil {
			l.AddRetry(*again)
		}
		return added
	})
	switch {
	case errors.Is(err, model.ErrNotFound):
		return format.BatchRow{}, c.drop(ctx, batch, row.ID)
	case err != nil:
		return format.BatchRow{}, err
	case invalid != nil:
		return format.BatchRow{}, invalid
	}
	// The message that completes the batch stays until the report is made and
	// what is not needed any more is removed. If its row was counted before, it
	// may be that one, delivered again.
	if completed || !added && (l.State == model.Gathering || l.Ended() && m.Redelivered) {
		return l, c.Gather(ctx, batch)
	}
	return l, nil
}

// drop removes the results of a parcel whose batch does not exist: it was
// removed before this message, or its dead letter, was done.
func (c *Collector) drop(ctx context.Context, batch string, id format.ParcelID) error {
	c.Options.Log.Info("results of a batch that does not exist were dropped", "batch", batch, "parcel", id.Parcel, "try", id.Try)
	_, err := c.Store.Rows.Submit(ctx, table.Write{
		Verb: table.Delete, If: table.AnyVersion,
		Row: table.Row{Partition: batch, Key: id.Key()},
	})
	if errors.Is(err, table.ErrNotFound) {
		return nil
	}
	return err
}
