package channels

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrNoProgress says that a deletion came no further, round after round.
var ErrNoProgress = errors.New("the deletion makes no progress")

// A round counts a portion of the blogs with one request and then deletes
// them. A crash costs reading that portion again, so it is one page.
//
// In Delete the fourth portion is larger: the requests for counting that this
// saves pay for the delivery of the message and for the look at the record, if
// Handle has to go on. So N blogs never cost more than 2⌈N/1000⌉ + ⌈N/100⌉ + 7
// requests with everything, whether Delete ends it or Handle; another two if
// Delete's time is over before it, and each further Handle for want of time
// costs another four.
const portion = MaxPage

func acceptPortion(n int) int {
	if n == 3 {
		return 3 * portion
	}
	return portion
}

const (
	maxIdleRounds = 5 // without any progress, one after the other
	maxSwaps      = 8 // tries to replace a row that others replace too
)

// deletion is a marked incarnation on its way out. It may be worked on by
// several processes at once; every step may be repeated at any time.
type deletion struct {
	c   *Channels
	rec record // as last read or written

	first string // of the blogs last read
	left  int    // how many those were

	erased atomic.Int64 // blogs that this very process has deleted
}

// progress changes whenever the deletion has come on, also through others.
func (d *deletion) progress() any {
	return [...]any{d.rec.counted, d.rec.state, d.first, d.left}
}

// removeFence keeps blogs from being added: from here on there are only fewer.
func (d *deletion) removeFence(ctx context.Context) error {
	if err := d.c.dropFence(ctx, d.rec); err != nil {
		return err
	}
	d.c.opt.Step(StepFenceGone)
	return nil
}

// What a round found.
type outcome int

const (
	more     outcome = iota // blogs, and there may be more
	last                    // the last blogs: they are deleted, which the next round has to see
	finished                // none: the deletion is done
)

// round deletes a portion of up to limit blogs, or some more if the store's
// pages are short. Only a round that finds none ends the deletion: whatever
// became of all the transactions, there is nothing left then, and nothing can
// come.
func (d *deletion) round(ctx context.Context, limit int) (outcome, error) {
	keys, end, err := d.front(ctx, limit)
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
		// Somebody counted the first ones and died. They alone make up this
		// round: the next portion then begins where it would have.
		keys, end = keys[:known], false
	}
	if err := d.count(ctx, keys); err != nil {
		return more, fmt.Errorf("count the blogs: %w", err)
	}
	if d.rec.state == done {
		return finished, nil // somebody else was faster
	}
	if err := d.erase(ctx, keys); err != nil {
		return more, fmt.Errorf("delete blogs: %w", err)
	}
	if end {
		return last, nil
	}
	return more, nil
}

// front returns the first keys of the partition. It begins at the very first
// row each time, because deleted rows are gone: what is in front is what is
// left to do, whoever did what so far. A page may be short or empty and have
// another behind it; only the store's word is the end. No keys at all are
// returned only there.
func (d *deletion) front(ctx context.Context, limit int) (keys []string, end bool, err error) {
	q := Query{Partition: d.rec.partition(), KeysOnly: true, Top: MaxPage}
	for {
		page, err := d.c.blogs.Query(ctx, q)
		if err != nil {
			return nil, false, err
		}
		if len(page.Rows) > 0 && page.Rows[0].Key == fenceKey {
			// Whoever marked the incarnation died right after. What was read
			// before the fence is gone is no basis.
			if err := d.removeFence(ctx); err != nil {
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
		if len(keys) >= limit {
			return keys, false, nil
		}
		q.After = page.Next
	}
}

// count writes down that these blogs were found, before any of them is
// deleted. Those up to the mark were counted in an earlier round, by whomever.
func (d *deletion) count(ctx context.Context, keys []string) error {
	counted := false
	err := d.swap(ctx, func(r *record) bool {
		fresh := keys[upTo(r.through, keys):]
		if r.state == done || len(fresh) == 0 {
			return false
		}
		r.counted += int64(len(fresh))
		r.through = fresh[len(fresh)-1]
		counted = true
		return true
	})
	if err == nil && counted {
		d.c.opt.Step(StepCounted)
	}
	return err
}

// upTo returns how many of the keys are not above this one.
func upTo(key string, keys []string) int {
	n, _ := slices.BinarySearch(keys, key+"\x00")
	return n
}

// erase deletes these blogs, a hundred at a time and several times at once.
// Of transactions that fail because a row is gone already nothing is tried
// again one by one: the next round reads what is left.
func (d *deletion) erase(ctx context.Context, keys []string) error {
	var stale atomic.Pointer[error]
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(d.c.opt.Parallel)
	for some := range slices.Chunk(keys, MaxTransaction) {
		group.Go(func() error {
			writes := make([]Write, len(some))
			for i, key := range some {
				writes[i] = Write{Verb: Delete, Row: Row{Partition: d.rec.partition(), Key: key}, If: AnyVersion}
			}
			_, err := d.c.blogs.Submit(ctx, writes...)
			if errors.Is(err, ErrNotFound) {
				stale.Store(&err) // the other transactions may do well
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
	if err == nil {
		d.c.opt.Step(StepErased)
	}
	return err
}

// finish turns the incarnation's row into the record of its deletion.
func (d *deletion) finish(ctx context.Context) error {
	err := d.swap(ctx, func(r *record) bool {
		if r.state == done {
			return false
		}
		r.state, r.finishedAt = done, r.touchedAt
		return true
	})
	if err == nil {
		d.c.opt.Step(StepDone)
	}
	return err
}

// swap replaces the incarnation's row by what change makes of it, if nobody
// else has replaced it meanwhile; otherwise change sees what is there now.
// It ends when change has nothing to do, which is also how it finds that an
// answer got lost.
func (d *deletion) swap(ctx context.Context, change func(*record) bool) error {
	var err error
	for range maxSwaps {
		next := d.rec
		next.touchedAt = time.Now().UTC()
		if !change(&next) {
			return nil
		}
		var versions []string
		versions, err = d.c.channels.Submit(ctx, Write{Verb: Replace, Row: next.row(), If: d.rec.version})
		if err == nil {
			next.version = versions[0]
			d.rec = next
			return nil
		}
		if errors.Is(err, ErrRefused) {
			return err
		}
		stored, found := d.c.record(ctx, d.rec.channel, d.rec.incarnation)
		if found != nil {
			return unclear(err, found)
		}
		d.rec = stored
	}
	return err
}
