package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/table"
	"kennel/internal/trace"
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
		err := b.gather(ctx, batch)
		if errors.Is(err, ErrProcessor) {
			// A process that knows the processor makes the report in its sweep.
			if b.foreign.add(err.Error()) {
				b.opt.Log.WarnContext(ctx, "report left to another process", "batch", batch, "error", err.Error())
			}
			return l, nil
		}
		return l, err
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

// Collect counts the results in a message from ResultsQueue, which builds before
// this one put there instead of counting them: during a rollout, and for what a
// rollout leaves. After nil, the caller deletes the message; it moves the message
// to the dead-letter queue after ErrMessage, and has it delivered again after any
// other error. Collect may be called with the same message any number of times,
// also concurrently.
func (b *Batches) Collect(ctx context.Context, m Message) error {
	r, parent, err := b.readResult(ctx, m.Text)
	if err != nil {
		return fmt.Errorf("collect results: %w", err)
	}
	ctx = trace.Within(ctx, parent)
	trace.Current(ctx).Text(trace.Batch, r.Batch)
	row := resultRow{
		id: parcelID{r.Parcel, r.Try}, done: r.Done, rejected: r.Rejected, failed: r.Failed,
		operations: r.Operations + b.ofMessage(m),
	}
	if _, err := b.countResults(ctx, m, r.Batch, row, nil, 0); err != nil {
		return fmt.Errorf("collect parcel %d, try %d, of batch %s: %w", r.Parcel, r.Try, r.Batch, err)
	}
	return nil
}

// resultMessage is the body of a message in ResultsQueue: a row of results.
type resultMessage struct {
	Version    int     `json:"v"`
	Batch      string  `json:"batch"`
	Parcel     int     `json:"parcel"`
	Try        int     `json:"try"`
	Done       int     `json:"done"`
	Rejected   int     `json:"rejected"`
	Failed     int     `json:"failed"`
	Operations float64 `json:"operations"`
}

const resultMessageVersion = 1

// readResult reads a message from ResultsQueue, and its trace. Its errors are
// those of a message.
func (b *Batches) readResult(ctx context.Context, text string) (r resultMessage, parent string, err error) {
	e, body, err := b.claims.Unpack(ctx, text)
	if err != nil {
		return r, "", unusable(err)
	}
	err = decodeStrictly(body, &r, resultMessageVersion)
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return resultMessage{}, "", fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return r, e.TraceParent, nil
}

func (r resultMessage) check() error {
	items := 0
	for _, n := range []int{r.Done, r.Rejected, r.Failed} {
		if n < 0 || n > LargeParcel {
			return fmt.Errorf("it counts %d items", n)
		}
		items += n
	}
	switch {
	case CheckID(r.Batch) != nil:
		return CheckID(r.Batch)
	case items > LargeParcel:
		return fmt.Errorf("it counts %d items", items)
	case !(r.Operations >= 0 && r.Operations < 1e6):
		return fmt.Errorf("it counts %v operations", r.Operations)
	}
	return parcelID{r.Parcel, r.Try}.check()
}
