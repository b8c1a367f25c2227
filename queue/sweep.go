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

// keptFor is how long a claim without a message is kept at least: longer than a
// put takes, and clocks differ.
const keptFor = 48 * time.Hour

// keptPages is how many pages of old claims a sweep reads at most.
const keptPages = 5

// SweepKept deletes kept claims that belong to no message: those whose message
// was never put, or whose removal failed. A claim is deleted only two days after
// it was written, and only if its queue and then the dead letters of it are
// empty: the count of a queue is never lower than its messages, a message is put
// among the dead letters before it is deleted from its queue, and one that goes
// back has a new claim. count returns the number of messages of a queue. SweepKept
// may run in several processes at once.
func (c *Claims) SweepKept(ctx context.Context, now time.Time, count func(ctx context.Context, queue string) (int64, error)) (deleted int, err error) {
	s := keptSweep{Claims: c, before: now.Add(-keptFor), count: count, empty: make(map[string]bool)}
	if err := s.rows(ctx); err != nil {
		return s.deleted, fmt.Errorf("sweep kept claims in the table: %w", err)
	}
	if err := s.inBlobs(ctx); err != nil {
		return s.deleted, fmt.Errorf("sweep kept claims in blobs: %w", err)
	}
	return s.deleted, nil
}

// keptSweep is one run of SweepKept.
type keptSweep struct {
	*Claims
	before  time.Time
	count   func(ctx context.Context, queue string) (int64, error)
	empty   map[string]bool // by queue
	deleted int
}

// unneeded reports whether a claim may be deleted, and whether there can be more.
func (s *keptSweep) unneeded(ctx context.Context, key string) (unneeded, more bool, err error) {
	day, queue, ok := keptOf(key)
	switch {
	case !ok:
		return false, true, nil // another program's
	case !day.Add(24 * time.Hour).Before(s.before): // it may be of the end of the day
		return false, false, nil
	}
	empty, known := s.empty[queue]
	if !known {
		for _, name := range []string{queue, queue + PoisonSuffix} {
			n, err := s.count(ctx, name)
			if err != nil {
				return false, false, err
			}
			if empty = n == 0; !empty {
				break
			}
		}
		s.empty[queue] = empty
	}
	return empty, true, nil
}

func (s *keptSweep) rows(ctx context.Context) error {
	q := table.Query{KeysOnly: true, Top: sweepPage}
	for range keptPages {
		page, err := s.Claims.rows.Query(ctx, q)
		if err != nil {
			return err
		}
		for len(page.Rows) > 0 {
			key := page.Rows[0].Partition
			var keys []string
			for len(page.Rows) > 0 && page.Rows[0].Partition == key {
				keys = append(keys, page.Rows[0].Key)
				page.Rows = page.Rows[1:]
			}
			unneeded, more, err := s.unneeded(ctx, key)
			if err != nil || !more {
				return err
			}
			if unneeded {
				if err := s.Claims.rows.delete(ctx, key, keys); err != nil {
					return err
				}
				s.deleted++
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
	return nil
}

func (s *keptSweep) inBlobs(ctx context.Context) error {
	names, err := table.Retry(ctx, func(ctx context.Context) ([]string, error) { return s.blobs.List(ctx, sweepPage) })
	if err != nil {
		return err
	}
	for _, name := range names {
		unneeded, more, err := s.unneeded(ctx, name)
		if err != nil || !more {
			return err
		}
		if unneeded {
			if err := s.deleteBlob(ctx, name); err != nil {
				return err
			}
			s.deleted++
		}
	}
	return nil
}
