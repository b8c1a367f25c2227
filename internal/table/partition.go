package table

import (
	"cmp"
	"context"
	"time"
)

// Querier is what ReadPartition needs of a table.
type Querier interface {
	Query(context.Context, Query) (Page, error)
}

// ReadPartition returns all rows of a partition, with these columns or, if it
// names none, with all of them. It also returns the time by the store's clock.
// The clock of this process may be wrong, so it is not used: without the
// store's time, the last write shows how late it is at least. Up to a thousand
// rows, and up to 4 MiB, take one request.
func ReadPartition(ctx context.Context, rows Querier, partition string, columns ...string) (all []Row, at time.Time, err error) {
	for q := (Query{Partition: partition, Columns: columns, Top: MaxPage}); ; {
		page, err := rows.Query(ctx, q)
		if err != nil {
			return nil, at, err
		}
		all = append(all, page.Rows...)
		at = page.ReadAt
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	var last time.Time
	for _, row := range all {
		if row.WrittenAt.After(last) {
			last = row.WrittenAt
		}
	}
	return all, cmp.Or(at, last), nil
}
