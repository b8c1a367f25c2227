package collect

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// After a call of Ended that failed, the next one follows after a pause that
// doubles from firstTellPause up to maxTellPause, with the sweep that is next.
const (
	firstTellPause = 2 * time.Minute
	maxTellPause   = 4 * time.Hour
)

// foreignEnd is how long an ended batch waits for a process that has its processor.
// Until then those that have not may be the older ones of a rollout.
const foreignEnd = 24 * time.Hour

// tell calls Ended of the processor of an ended batch, if it has that. Its result
// need not be stored: the row by which the sweep finds the batch is removed after
// it. pending reports that the sweep calls again, later.
//
// Several processes may call it at once, and a process may be killed before the row
// is removed: so Ended is called at least once, and perhaps more often.
func (c *Collector) tell(ctx context.Context, l format.BatchRow) (pending bool, err error) {
	processor := c.Processors[l.Details.Processor]
	over := time.Since(l.FinishedAt)
	if processor == nil {
		if over < foreignEnd {
			return true, nil
		}
		c.Options.Log.WarnContext(ctx, "batch ended without a call of Ended: no process has its processor any more", "batch", l.Details.ID, "processor", l.Details.Processor)
		return false, nil
	}
	ender, ok := processor.(model.Ender)
	if !ok {
		return false, nil
	}
	now := time.Now()
	if now.Before(l.End.NextAt) {
		return true, nil
	}
	batch := c.View(ctx, l)
	err = guarded(func() error { return ender.Ended(ctx, batch, l.End.Tries+1) })
	switch {
	case err == nil:
		return false, nil
	case ctx.Err() != nil: // a stop, or a caller without time, is no failure of Ended
		return false, err
	case errors.Is(err, model.ErrRejected):
		c.Options.Log.ErrorContext(ctx, "the end of a batch was rejected, and is not told again", "batch", l.Details.ID, "error", err.Error())
		return false, nil
	case over > c.Options.Retention:
		c.Options.Log.ErrorContext(ctx, "the end of a batch was told in vain until its retention ended", "batch", l.Details.ID, "tries", l.End.Tries+1, "error", err.Error())
		return false, nil
	}
	c.Options.Log.WarnContext(ctx, "the end of a batch could not be told; trying again later", "batch", l.Details.ID, "tries", l.End.Tries+1, "error", err.Error())
	return true, c.recordTold(ctx, l, err)
}

// recordTold records a call of Ended that failed, unless that of another process
// was recorded meanwhile.
func (c *Collector) recordTold(ctx context.Context, l format.BatchRow, cause error) error {
	tries := l.End.Tries
	pause := min(firstTellPause<<min(tries, 16), maxTellPause)
	next := time.Now().Add(pause/2 + rand.N(pause/2))
	_, err := c.Store.Change(ctx, l.Details.ID, func(l *format.BatchRow) bool {
		if l.End.Tries != tries {
			return false
		}
		l.End = format.EndRetry{Tries: tries + 1, NextAt: next.UTC(), Error: model.ShortenTo(cause.Error(), format.MaxRetryError)}
		return true
	})
	return err
}
