package store

import (
	"context"
	"errors"
	"time"

	"kennel/internal/table"
)

// sweepRows is how many rows the sweep reads with one request.
const sweepRows = 100

// Half returns a ctx that ends after half of the time that is left.
func Half(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(end)/2)
	}
	return context.WithCancel(ctx)
}

// RowsOf calls do for each row of a query, page by page, with the time at which
// the page was read by the clock of the store. It continues after an error of
// do.
func (s *Store) RowsOf(ctx context.Context, q table.Query, do func(context.Context, table.Row, time.Time) error) error {
	var errs []error
	for {
		q.Top = sweepRows
		page, err := s.Rows.Query(ctx, q)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		now := page.ReadAt
		if now.IsZero() {
			now = time.Now()
		}
		for i, row := range page.Rows {
			if err := ctx.Err(); err != nil {
				return errors.Join(append(errs, err)...)
			}
			part, cancel := ctx, context.CancelFunc(func() {})
			if isLast := page.Next == "" && i == len(page.Rows)-1; !isLast {
				part, cancel = Half(ctx)
			}
			if err := do(part, row, now); err != nil {
				errs = append(errs, err)
			}
			cancel()
		}
		if q.After = page.Next; q.After == "" {
			return errors.Join(errs...)
		}
	}
}
