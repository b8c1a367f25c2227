package channels

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"kennel/internal/table"
)

// ErrNoProgress reports that a deletion made no progress in several rounds.
var ErrNoProgress = errors.New("the deletion makes no progress")

// A round counts a portion of the blogs with one request and then deletes them.
// After a crash the portion is read again, so it is one page. The deletion of N
// rows (blogs, and the keys of their posts) makes at most 2⌈N/1000⌉ + ⌈N/100⌉ + 7 requests if Delete finishes it,
// and two more if Handle does. Each further Handle, for lack of time, makes
// four more.
const portion = table.MaxPage

const (
	maxIdleRounds = 5 // in a row without any progress
	maxSwaps      = 8 // tries to replace a row that other processes also replace
)

// deletion is the deletion of a marked incarnation. Several processes may work
// on it at once; every step may be repeated at any time.
type deletion struct {
	c   *Channels
	rec record // as last read or written

	first string // key of the first row of the last read
	left  int    // number of rows of the last read

	erased atomic.Int64 // rows deleted by this process
}

// progress changes whenever the deletion makes progress, also by another
// process.
func (d *deletion) progress() any {
	return [...]any{d.rec.counted, d.rec.state, d.first, d.left}
}

// outcome is the result of a round.
type outcome int

const (
	more     outcome = iota // it found blogs, and there may be more
	last                    // it deleted the last blogs; the next round has to confirm that
	finished                // it found no blogs: the deletion is done
)

// round deletes a portion of the blogs, or more than a portion if the store's
// pages are short. Only a round that finds none ends the deletion: then nothing
// is left and nothing can be added, whatever the outcome of the transactions.
func (d *deletion) round(ctx context.Context) (outcome, error) {
	keys, end, err := d.front(ctx)
	if err != nil {
		return more, fmt.Errorf("read the blogs: %w", err)
	}
	d.first, d.left = "", len(keys)
	if len(keys) == 0 {
		if err := d.finish(ctx); err != nil {
			return last, fmt.Errorf("record the end: %w", err)
		}
		return finished, nil
	}
	d.first = keys[0]
	if known := upTo(d.rec.through, keys); known > 0 && known < len(keys) {
		// Another process counted the first blogs and died. This round deletes
		// only those, so that the portions of later rounds do not change.
		keys, end = keys[:known], false
	}
	if err := d.count(ctx, keys); err != nil {
		return more, fmt.Errorf("count the blogs: %w", err)
	}
	if d.rec.state == done {
		return finished, nil // another process was faster
	}
	if err := d.erase(ctx, keys); err != nil {
		return more, fmt.Errorf("delete blogs: %w", err)
	}
	if end {
		return last, nil
	}
	return more, nil
}

// front returns the keys of the first rows of the partition and whether they
// are the last ones. It always begins at the first row, because deleted rows
// are gone. A page may be short or empty although more follow; only an empty
// Next marks the end. If front returns no keys, nothing is left.
func (d *deletion) front(ctx context.Context) (keys []string, end bool, err error) {
	q := table.Query{Partition: d.rec.partition(), KeysOnly: true, Top: table.MaxPage}
	for {
		page, err := d.c.blogs.Query(ctx, q)
		if err != nil {
			return nil, false, err
		}
		if len(page.Rows) > 0 && page.Rows[0].Key == fenceKey {
			// The process that marked the incarnation died before it removed
			// the fence. Until the fence is removed, blogs may be added, so
			// read again afterwards.
			if err := d.c.dropFence(ctx, d.rec); err != nil {
				return nil, false, err
			}
			keys, q.After = nil, ""
			continue
		}
		for _, row := range page.Rows {
			keys = append(keys, row.Key)
		}
		if page.Next == "" {
			return keys, true, nil
		}
		if len(keys) >= portion {
			return keys, false, nil
		}
		q.After = page.Next
	}
}

// count records which of these rows are blogs, before any of them is deleted.
// Those with keys up to r.through were counted in an earlier round.
func (d *deletion) count(ctx context.Context, keys []string) error {
	return d.swap(ctx, func(r *record) bool {
		fresh := keys[upTo(r.through, keys):]
		if r.state == done || len(fresh) == 0 {
			return false
		}
		for _, key := range fresh {
			if isBlog(key) {
				r.counted++
			}
		}
		r.through = fresh[len(fresh)-1]
		return true
	})
}

// upTo returns how many of the sorted keys are not greater than key.
func upTo(key string, keys []string) int {
	n, _ := slices.BinarySearch(keys, key+"\x00")
	return n
}

// erase deletes these rows in transactions of up to 100 rows, several at once.
// If a transaction fails because a row is already deleted, its other rows are
// not tried one by one: the next round reads the rest.
func (d *deletion) erase(ctx context.Context, keys []string) error {
	var stale atomic.Pointer[error]
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(d.c.opt.Parallel)
	for some := range slices.Chunk(keys, table.MaxTransaction) {
		group.Go(func() error {
			writes := make([]table.Write, len(some))
			for i, key := range some {
				writes[i] = table.Write{Verb: table.Delete, Row: table.Row{Partition: d.rec.partition(), Key: key}, If: table.AnyVersion}
			}
			_, err := d.c.blogs.Submit(ctx, writes...)
			if errors.Is(err, ErrNotFound) {
				stale.Store(&err) // the other transactions may succeed
				return nil
			}
			if err == nil {
				d.erased.Add(int64(len(some)))
			}
			return err
		})
	}
	err := group.Wait()
	if p := stale.Load(); err == nil && p != nil {
		err = *p
	}
	return err
}

// finish turns the incarnation's row into the record of its deletion.
func (d *deletion) finish(ctx context.Context) error {
	return d.swap(ctx, func(r *record) bool {
		if r.state == done {
			return false
		}
		r.state, r.finishedAt = done, r.touchedAt
		return true
	})
}

// swap applies change to the incarnation's row and stores it. If another
// process replaces the row first, swap applies change to the new row. It
// returns when change reports that there is nothing to do, which is also the
// case if its own write was applied and the answer was lost.
func (d *deletion) swap(ctx context.Context, change func(*record) bool) error {
	var err error
	for range maxSwaps {
		next := d.rec
		next.touchedAt = time.Now().UTC()
		if !change(&next) {
			return nil
		}
		var versions []string
		versions, err = d.c.channels.Submit(ctx, table.Write{Verb: table.Replace, Row: next.row(), If: d.rec.version})
		if err == nil {
			next.version = versions[0]
			d.rec = next
			return nil
		}
		stored, readErr := d.c.recordAfter(ctx, err, d.rec.channel, d.rec.incarnation)
		if readErr != nil {
			return readErr
		}
		d.rec = stored
	}
	return err
}
