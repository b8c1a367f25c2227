// Package process runs the items of parcels through their processor.
package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kennel/internal/trace"
	"kennel/queue"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
	"kennel/work/internal/store"
)

// heldDelay is how long a message that is held is at least kept from its next
// delivery: waiting at the gate, or as a copy with a delay if its gate cannot be
// read or waits for no message.
const heldDelay = 30 * time.Second

// Process processes the parcel in a message from one of the partition queues or
// ExpressQueue: it stores the results of its items, queues those that have to be
// repeated, and counts the results. If every item of the batch has a result then,
// Process makes the report. After nil, and after ErrHeld, the caller deletes the
// message; after nil it calls Forget then. It moves the message to the
// dead-letter queue after ErrMessage, and has it delivered again after any other
// error. Process may be called with the same message any number of times, also
// concurrently.
func (w *Worker) Process(ctx context.Context, queueName string, m model.Message) error {
	ctx, spent := store.WithTally(ctx)
	store.Count(ctx, w.OfMessage(m))
	e, p, err := w.ParcelOf(ctx, m.Text)
	ctx = trace.Within(ctx, e.TraceParent)
	if errors.Is(err, queue.ErrClaimGone) {
		if isDone, readErr := w.wasDone(ctx, e.ID); isDone || readErr != nil {
			return readErr
		}
	}
	if err != nil {
		return fmt.Errorf("process a parcel: %w", err)
	}
	if !e.ClaimExpires().IsZero() {
		store.Count(ctx, 3) // to store, read and delete the claim
	}
	trace.Current(ctx).Text(trace.Batch, p.Batch)
	if err := w.process(ctx, spent, queueName, m, e, p); err != nil {
		return fmt.Errorf("process parcel %s: %w", p.Message(), err)
	}
	return nil
}

// wasDone reports whether there are results for a message whose claim is gone:
// a copy of it was done, and the claim was removed.
func (w *Worker) wasDone(ctx context.Context, message string) (bool, error) {
	batch, id, ok := strings.Cut(message, "/")
	if !ok || model.CheckID(batch) != nil {
		return false, nil
	}
	p, err := format.ParseParcelID(id)
	if err != nil {
		return false, nil
	}
	_, found, err := w.Store.FindResults(ctx, batch, p)
	return found, err
}

func (w *Worker) process(ctx context.Context, spent *store.Tally, queueName string, m model.Message, e queue.Envelope, p format.Parcel) error {
	if reason := w.accepts(p); reason != nil {
		return w.leave(ctx, queueName, e, reason)
	}
	if err := w.pass(ctx, queueName, e); err != nil {
		return err
	}
	began, worked := time.Now(), w.Store.Working.Begin()
	defer worked()
	var row format.ResultRow
	found := false
	if m.Redelivered {
		var err error
		if row, found, err = w.Store.FindResults(ctx, p.Batch, p.ID); err != nil {
			return err
		}
	}
	if !found {
		r, err := w.Try(ctx, w.Processors[p.Processor], p)
		if err == nil {
			row, err = w.insertRun(ctx, spent, r)
		}
		if err != nil {
			return err
		}
	}
	worked()
	// The message stays until the results are counted and what remains is queued,
	// so the next delivery does what a process that is killed leaves.
	l, err := w.Collector.CountResults(ctx, m, p.Batch, row, w.retryOf(p, row), time.Since(began))
	if err != nil {
		return err
	}
	return w.follow(ctx, queueName, p, row, l)
}

// follow puts the items that remain of a parcel, unless the next try was counted
// or the batch has ended. l is the batch's row in which row is counted: while it cannot
// be written, each delivery would put a copy.
func (w *Worker) follow(ctx context.Context, queueName string, p format.Parcel, row format.ResultRow, l format.BatchRow) error {
	if len(row.Remaining) == 0 || l.State == "" || l.Ended() || !l.IsDue(format.Retry{Parcel: row.ID.Parcel, Try: row.ID.Try}) {
		return nil
	}
	next, err := p.Again(row)
	if err != nil {
		return err
	}
	return w.PutParcel(ctx, queueName, next, row.Delay())
}

// pass waits until the gate is open. If it stays closed, pass puts a copy of
// the message into its queue and returns ErrHeld.
func (w *Worker) pass(ctx context.Context, queueName string, e queue.Envelope) error {
	if w.Options.Gate == nil {
		return nil
	}
	opened, err := w.Options.Gate.Opened(ctx)
	if err == nil && !opened.IsZero() {
		return nil
	}
	limit := w.Options.HoldTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)-StopEarly-w.Options.ItemTime)
	}
	began := time.Now()
	if err == nil && limit > 0 {
		var open bool
		if open, err = w.Options.Gate.Wait(ctx, limit); open {
			return nil
		}
	}
	delay := max(0, heldDelay-time.Since(began))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		w.Options.Log.Warn("cannot read the gate of the work queues; it counts as closed", "queue", queueName, "error", err)
	}
	err = w.PutCopy(ctx, queueName, e, delay)
	if err != nil {
		return fmt.Errorf("put it back at a closed gate: %w", err)
	}
	return model.ErrHeld
}
