package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/trace"
	"kennel/queue"
)

// A running batch is stalled if its ledger was not written for minStalled. The
// time doubles with each restart up to maxStalled, so that parcels that end as
// dead letters each time are few.
const (
	minStalled = 10 * time.Minute
	maxStalled = 24 * time.Hour
)

// putTime is how long after the ledger was written the messages of next tries may
// be put: in the call that counted the results before.
const putTime = 5 * time.Minute

// maxWork is how long a receiver may take for a message.
const maxWork = time.Hour

// sweepRunning restarts a batch that is stalled.
func (b *Batches) sweepRunning(ctx context.Context, l ledger, now time.Time, swept *Swept) error {
	isStalled, err := b.isStalled(ctx, l, now)
	if err != nil || !isStalled {
		return err
	}
	err = b.restart(ctx, l)
	if errors.Is(err, ErrCorrupt) {
		_, err = b.damaged(ctx, l, err)
		return err
	}
	if err != nil {
		return fmt.Errorf("restart batch %s: %w", l.details.ID, err)
	}
	b.opt.Log.WarnContext(ctx, "batch without progress was queued again", "batch", l.details.ID)
	swept.Restarted++
	return nil
}

// isStalled reports whether messages of a running batch are lost. It is not
// stalled while its gate is closed, or while one of its queues may hold a
// message of it.
func (b *Batches) isStalled(ctx context.Context, l ledger, now time.Time) (bool, error) {
	since := l.writtenAt
	if b.opt.Gate != nil {
		opened, err := b.opt.Gate.Opened(ctx)
		if err != nil || opened.IsZero() {
			return false, err
		}
		if opened.After(since) {
			since = opened
		}
	}
	quiet := now.Sub(since)
	if quiet < min(minStalled<<min(l.restarts, 8), maxStalled) {
		return false, nil
	}
	// Its messages were put before the ledger was last written, or soon after it,
	// and those that were held before the gate opened.
	for _, name := range l.details.queues(b.opt.Partitions) {
		if isPast, err := b.isPast(ctx, name, since.Add(putTime), quiet); err != nil || !isPast {
			return false, err
		}
	}
	return true, nil
}

// queues returns the queues that messages of the batch may be in.
func (d details) queues(partitions int) []string {
	if d.Parcels <= expressParcels {
		return []string{ExpressQueue}
	}
	var names []string
	for n := range min(partitions, d.Parcels) {
		names = append(names, PartitionQueue(n))
	}
	return names
}

// isPast reports whether the messages that were put into a queue before a time
// were received. Messages that a receiver holds cannot be seen: they are
// expected to be done after maxWork.
func (b *Batches) isPast(ctx context.Context, name string, put time.Time, quiet time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, queuesTime)
	defer cancel()
	n, err := b.depths.Count(ctx, name)
	if err != nil || n == 0 {
		return err == nil, err
	}
	var head []queue.Message
	if head, err = b.depths.Peek(ctx, name, 1); err != nil {
		return false, err
	}
	if len(head) == 0 {
		return quiet >= maxWork, nil
	}
	return head[0].Inserted.After(put), nil
}

// queuesTime bounds the requests for the state of one queue.
const queuesTime = 15 * time.Second

// restart puts the messages that are missing: for each parcel its next try, and
// the results that are not counted. What is not missing is put twice, which is
// harmless.
func (b *Batches) restart(ctx context.Context, l ledger) (err error) {
	ctx, span := startSpan(trace.Within(ctx, l.details.TraceParent), "restart", l.details.ID)
	defer func() { endSpan(span, err) }()
	ctx, spent := withTally(ctx)
	if err = b.putMissing(ctx, l); err != nil {
		return err
	}
	now := time.Now().UTC()
	_, err = b.change(ctx, l.details.ID, func(l *ledger) bool {
		if l.restartedAt.Equal(now) {
			return false
		}
		l.restartedAt = now
		l.restarts++
		l.operations += spent.total()
		return true
	})
	return err
}
