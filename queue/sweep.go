package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kennel/internal/table"
)

// sweepPage is how many keys the sweep reads with one request.
const sweepPage = 1000

// Sweep deletes the claims that expired before now: those whose message was
// never put, or was lost, or whose removal failed. It reads the oldest keys
// first and stops at the first that has not expired, so if there are none it
// makes two requests, whatever the number of claims. It may run in several
// processes at once. It returns how many claims it deleted, with an error too.
func (c *Claims) Sweep(ctx context.Context, now time.Time) (deleted int, err error) {
	rows, err := c.sweepRows(ctx, now)
	if err != nil {
		return rows, fmt.Errorf("sweep claims in the table: %w", err)
	}
	blobs, err := c.sweepBlobs(ctx, now)
	if err != nil {
		return rows + blobs, fmt.Errorf("sweep claims in blobs: %w", err)
	}
	return rows + blobs, nil
}

func (c *Claims) sweepRows(ctx context.Context, now time.Time) (deleted int, err error) {
	last := ""
	q := table.Query{KeysOnly: true, Top: sweepPage}
	for {
		page, err := c.rows.Query(ctx, q)
		if err != nil {
			return deleted, err
		}
		for len(page.Rows) > 0 {
			key := page.Rows[0].Partition
			var rows []string // of this claim, as far as they are on the page
			for len(page.Rows) > 0 && page.Rows[0].Partition == key {
				rows = append(rows, page.Rows[0].Key)
				page.Rows = page.Rows[1:]
			}
			at, ok := expiry(key)
			switch {
			case !ok:
				continue // another program's
			case at.After(now):
				return deleted, nil
			}
			for some := range slices.Chunk(rows, table.MaxTransaction) {
				if err := c.rows.delete(ctx, key, some); err != nil {
					return deleted, err
				}
			}
			if key != last { // a page may end within a claim
				deleted++
				last = key
			}
		}
		if page.Next == "" {
			return deleted, nil
		}
		q.After = page.Next
	}
}

func (c *Claims) sweepBlobs(ctx context.Context, now time.Time) (deleted int, err error) {
	for {
		names, err := table.Retry(ctx, func(ctx context.Context) ([]string, error) { return c.blobs.List(ctx, sweepPage) })
		if err != nil {
			return deleted, err
		}
		before := deleted
		for _, name := range names {
			at, ok := expiry(name)
			switch {
			case !ok:
				continue // another program's
			case at.After(now):
				return deleted, nil
			}
			if err := c.deleteBlob(ctx, name); err != nil {
				return deleted, err
			}
			deleted++
		}
		if len(names) < sweepPage || deleted == before {
			return deleted, nil
		}
	}
}
