package collect

import (
	"context"
	"time"

	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// Damaged ends a batch whose staged parcels are missing or cannot be read,
// unless they are missing because it went on meanwhile.
func (c *Collector) Damaged(ctx context.Context, l format.BatchRow, cause error) (format.BatchRow, error) {
	now := time.Now().UTC()
	state := l.State
	l, err := c.Store.Change(ctx, l.Details.ID, func(l *format.BatchRow) bool {
		if l.State != state {
			return false
		}
		l.State, l.Err, l.FinishedAt = model.Failed, model.ShortError(cause.Error()), now
		return true
	})
	if err != nil || l.State != model.Failed {
		return l, err
	}
	c.Options.Log.ErrorContext(ctx, "batch failed", "batch", l.Details.ID, "error", cause)
	_, err = c.CleanUp(ctx, l)
	return l, err
}
