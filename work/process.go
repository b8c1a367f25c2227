package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"kennel/internal/trace"
	"kennel/queue"
)

// stopEarly is how long before the deadline of its ctx Process begins no more
// items and waits no longer at a gate, so that it can store what is done.
const stopEarly = 15 * time.Second

// firstDelay is the wait before the second try of items. It doubles with each
// further try, and is less by up to a half of it.
const firstDelay = 10 * time.Second

// heldDelay is how long a message that is held is at least kept from its next
// delivery: waiting at the gate, or as a copy with a delay if its gate cannot be
// read or waits for no message.
const heldDelay = 30 * time.Second

// errNoTime reports that the ctx ends too soon to process an item.
var errNoTime = errors.New("the time of the call is too short to process items")

// Process processes the parcel in a message from one of the partition queues or
// ExpressQueue: it stores the results of its items, queues those that have to be
// repeated, and counts the results. If every item of the batch has a result then,
// Process makes the report. After nil, and after ErrHeld, the caller deletes the
// message; after nil it calls Forget then. It moves the message to the
// dead-letter queue after ErrMessage, and has it delivered again after any other
// error. Process may be called with the same message any number of times, also
// concurrently.
func (b *Batches) Process(ctx context.Context, queueName string, m Message) error {
	ctx, spent := withTally(ctx)
	count(ctx, b.ofMessage(m))
	e, p, err := b.parcelOf(ctx, m.Text)
	ctx = trace.Within(ctx, e.TraceParent)
	if errors.Is(err, queue.ErrClaimGone) {
		if isDone, readErr := b.wasDone(ctx, e.ID); isDone || readErr != nil {
			return readErr
		}
	}
	if err != nil {
		return fmt.Errorf("process a parcel: %w", err)
	}
	if !e.ClaimExpires().IsZero() {
		count(ctx, 3) // to store, read and delete the claim
	}
	trace.Current(ctx).Text(trace.Batch, p.Batch)
	if err := b.process(ctx, spent, queueName, m, e, p); err != nil {
		return fmt.Errorf("process parcel %s: %w", p.message(), err)
	}
	return nil
}

// parcelOf returns the parcel of a message.
func (b *Batches) parcelOf(ctx context.Context, text string) (queue.Envelope, parcel, error) {
	e, packed, err := b.claims.Unpack(ctx, text)
	if err != nil {
		return e, parcel{}, unusable(err)
	}
	p, err := b.unpackParcel(packed)
	if err == nil && p.message() != e.ID {
		err = fmt.Errorf("the message %.80q has parcel %s: %w", e.ID, p.message(), ErrMessage)
	}
	return e, p, err
}

// unusable wraps the errors of messages that no retry makes readable in
// ErrMessage. A lost claim is one of them: the sweep restarts the parcel.
func unusable(err error) error {
	if errors.Is(err, queue.ErrMessage) || errors.Is(err, queue.ErrClaimGone) {
		return fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return err
}

// wasDone reports whether there are results for a message whose claim is gone:
// a copy of it was done, and the claim was removed.
func (b *Batches) wasDone(ctx context.Context, message string) (bool, error) {
	batch, id, ok := strings.Cut(message, "/")
	if !ok || CheckID(batch) != nil {
		return false, nil
	}
	p, err := parseParcelID(id)
	if err != nil {
		return false, nil
	}
	_, found, err := b.findResults(ctx, batch, p)
	return found, err
}

func (b *Batches) process(ctx context.Context, spent *tally, queueName string, m Message, e queue.Envelope, p parcel) error {
	if reason := b.accepts(p); reason != nil {
		return b.leave(ctx, queueName, e, reason)
	}
	if err := b.pass(ctx, queueName, e); err != nil {
		return err
	}
	began, worked := time.Now(), b.working.begin()
	defer worked()
	var row resultRow
	found := false
	if m.Redelivered {
		var err error
		if row, found, err = b.findResults(ctx, p.Batch, p.ID); err != nil {
			return err
		}
	}
	if !found {
		r, err := b.try(ctx, b.processors[p.Processor], p)
		if err == nil {
			row, err = b.insertRun(ctx, spent, r)
		}
		if err != nil {
			return err
		}
	}
	worked()
	delay := firstDelay << p.ID.Try
	nextAt := time.Now().Add(delay/2 + rand.N(delay/2))
	// The message stays until the results are counted and what remains is queued,
	// so the next delivery does what a process that is killed leaves.
	l, err := b.countResults(ctx, m, p.Batch, row, b.retryOf(p, row, nextAt), time.Since(began))
	if err != nil {
		return err
	}
	return b.follow(ctx, queueName, p, row, l, nextAt)
}

// follow puts the items that remain of a parcel, unless the next try was counted
// or the batch has ended. l is the ledger in which row is counted: while it cannot
// be written, each delivery would put a copy.
func (b *Batches) follow(ctx context.Context, queueName string, p parcel, row resultRow, l ledger, nextAt time.Time) error {
	if len(row.remaining) == 0 || l.state == "" || l.ended() || !l.isDue(retry{Parcel: row.id.Parcel, Try: row.id.Try}) {
		return nil
	}
	next, err := p.again(row.remaining, p.ID.Try+1)
	if err != nil {
		return err
	}
	return b.putParcel(ctx, queueName, next, max(0, time.Until(nextAt)))
}

// putParcel puts a parcel into a queue.
func (b *Batches) putParcel(ctx context.Context, queueName string, p parcel, delay time.Duration) error {
	return b.putPacked(ctx, queueName, p, p.pack(&b.coders, p.lines()), delay)
}

// putPacked is putParcel for a parcel that is packed.
func (b *Batches) putPacked(ctx context.Context, queueName string, p parcel, packed []byte, delay time.Duration) error {
	text, err := b.claims.Pack(ctx, queue.Envelope{ID: p.message(), Time: p.SubmittedAt, TraceParent: trace.Parent(ctx)}, packed)
	if err == nil {
		err = b.put(ctx, queueName, text, delay)
	}
	if err != nil {
		return fmt.Errorf("put parcel %s: %w", p.message(), err)
	}
	return nil
}

// pass waits until the gate is open. If it stays closed, pass puts a copy of
// the message into its queue and returns ErrHeld.
func (b *Batches) pass(ctx context.Context, queueName string, e queue.Envelope) error {
	if b.opt.Gate == nil {
		return nil
	}
	opened, err := b.opt.Gate.Opened(ctx)
	if err == nil && !opened.IsZero() {
		return nil
	}
	limit := b.opt.HoldTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)-stopEarly-b.opt.ItemTime)
	}
	began := time.Now()
	if err == nil && limit > 0 {
		var open bool
		if open, err = b.opt.Gate.Wait(ctx, limit); open {
			return nil
		}
	}
	delay := max(0, heldDelay-time.Since(began))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		b.opt.Log.Warn("cannot read the gate of the work queues; it counts as closed", "queue", queueName, "error", err)
	}
	err = b.putCopy(ctx, queueName, e, delay)
	if err != nil {
		return fmt.Errorf("put it back at a closed gate: %w", err)
	}
	return ErrHeld
}

// Forget removes what is stored for a message that was deleted, after Process
// returned nil for it.
func (b *Batches) Forget(ctx context.Context, text string) error {
	e, err := queue.Parse(text)
	if err != nil {
		return fmt.Errorf("forget a message: %w", unusable(err))
	}
	return b.claims.Remove(ctx, e)
}
