package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/trace"
	"kennel/queue"
	"kennel/work/internal/base"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
	"kennel/work/internal/store"
	"kennel/work/internal/submit"
)

// A running batch is stalled if its row was not written for MinStalled. The
// time doubles with each restart up to maxStalled, so that parcels that end as
// dead letters each time are few.
const (
	MinStalled = 10 * time.Minute
	maxStalled = 24 * time.Hour
)

// putTime is how long after the batch's row was written the messages of next tries may
// be put: in the call that counted the results before.
const putTime = 5 * time.Minute

// maxWork is how long a receiver may take for a message.
const maxWork = time.Hour

// sweepRunning restarts a batch that is stalled.
func (s *Sweeper) sweepRunning(ctx context.Context, l format.BatchRow, now time.Time, swept *Swept) error {
	isStalled, err := s.isStalled(ctx, l, now)
	if err != nil || !isStalled {
		return err
	}
	err = s.restart(ctx, l)
	if errors.Is(err, model.ErrCorrupt) {
		_, err = s.Collector.Damaged(ctx, l, err)
		return err
	}
	if err != nil {
		return fmt.Errorf("restart batch %s: %w", l.Details.ID, err)
	}
	s.Options.Log.WarnContext(ctx, "batch without progress was queued again", "batch", l.Details.ID)
	swept.Restarted++
	return nil
}

// isStalled reports whether messages of a running batch are lost. It is not
// stalled while its gate is closed, or while one of its queues may hold a
// message of it.
func (s *Sweeper) isStalled(ctx context.Context, l format.BatchRow, now time.Time) (bool, error) {
	since := l.WrittenAt
	if s.Options.Gate != nil {
		opened, err := s.Options.Gate.Opened(ctx)
		if err != nil || opened.IsZero() {
			return false, err
		}
		if opened.After(since) {
			since = opened
		}
	}
	if l.WaitsUntil.After(since) { // by the clock of a worker
		since = l.WaitsUntil
		if most := l.WrittenAt.Add(model.MaxWait); most.Before(since) {
			since = most
		}
	}
	quiet := now.Sub(since)
	if quiet < min(MinStalled<<min(l.Restarts, 8), maxStalled) {
		return false, nil
	}
	// Its messages were put before the batch's row was last written, or soon after it,
	// and those that were held before the gate opened.
	for _, name := range l.Details.Queues(s.Options.Partitions) {
		if isPast, err := s.isPast(ctx, name, since.Add(putTime), quiet); err != nil || !isPast {
			return false, err
		}
	}
	return true, nil
}

// isPast reports whether the messages that were put into a queue before a time
// were received. Messages that a receiver holds cannot be seen: they are
// expected to be done after maxWork.
func (s *Sweeper) isPast(ctx context.Context, name string, put time.Time, quiet time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, queuesTime)
	defer cancel()
	n, err := s.Depths.Count(ctx, name)
	if err != nil || n == 0 {
		return err == nil, err
	}
	var head []queue.Message
	if head, err = s.Depths.Peek(ctx, name, 1); err != nil {
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
func (s *Sweeper) restart(ctx context.Context, l format.BatchRow) (err error) {
	ctx, span := base.StartSpan(trace.Within(ctx, l.Details.TraceParent), "restart", l.Details.ID)
	defer func() { base.EndSpan(span, err) }()
	ctx, spent := store.WithTally(ctx)
	if err = s.putMissing(ctx, l); err != nil {
		return err
	}
	now := time.Now().UTC()
	_, err = s.Store.Change(ctx, l.Details.ID, func(l *format.BatchRow) bool {
		if l.RestartedAt.Equal(now) {
			return false
		}
		l.RestartedAt = now
		l.Restarts++
		l.Operations += spent.Total()
		return true
	})
	return err
}

// putMissing does what a batch without progress needs: it counts the results that
// are not counted, and puts the next try of each parcel.
func (s *Sweeper) putMissing(ctx context.Context, l format.BatchRow) error {
	var uncounted []format.ResultRow
	r, err := s.Store.ReadResults(ctx, l, func(row format.ResultRow) {
		if !l.Tried.Has(row.ID) {
			uncounted = append(uncounted, row)
		}
	})
	if err == nil && len(uncounted) > 0 {
		l, err = s.Store.CountAll(ctx, l.Details.ID, uncounted)
	}
	switch {
	case err != nil:
		return err
	case l.State == model.Gathering:
		return s.Collector.Gather(ctx, l.Details.ID)
	}
	_, err = s.Submitter.PutParcels(ctx, l.Details, submit.Missing{Results: r, Again: true})
	return err
}
