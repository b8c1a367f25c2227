package work

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
)

// putsAtOnce is how many messages of a batch are put at the same time. Slow
// queues need many: with puts of two seconds, 5,000 parcels take five minutes.
const putsAtOnce = 32

// results is what is stored of the parcels of a batch.
type results struct {
	known bitSet            // parcels with results
	open  map[int]resultRow // the last results of parcels with items that remain, without their bodies
}

// readResults reads which parcels have results. It calls each, if it is not
// nil, with every row.
func (b *Batches) readResults(ctx context.Context, l ledger, each func(resultRow)) (*results, error) {
	r := &results{open: make(map[int]resultRow)}
	for row, err := range b.rowsAbove(ctx, l.details.ID, resultKey, sweepRows) {
		if err != nil {
			return nil, err
		}
		row.packed = nil
		r.known.set(row.id.Parcel)
		delete(r.open, row.id.Parcel)
		if len(row.remaining) > 0 {
			r.open[row.id.Parcel] = row
		}
		if each != nil {
			each(row)
		}
	}
	return r, nil
}

// missing is which parcels of a batch have no message.
type missing struct {
	results *results
	from    int  // the parcels before it were put
	again   bool // the next tries of parcels with results are missing too
}

// putMissing does what a batch without progress needs: it counts the results that
// are not counted, and puts the next try of each parcel.
func (b *Batches) putMissing(ctx context.Context, l ledger) error {
	var uncounted []resultRow
	r, err := b.readResults(ctx, l, func(row resultRow) {
		if !l.counted.has(row.id.bit()) {
			uncounted = append(uncounted, row)
		}
	})
	if err == nil && len(uncounted) > 0 {
		l, err = b.countAll(ctx, l.details.ID, uncounted)
	}
	switch {
	case err != nil:
		return err
	case l.state == Gathering:
		return b.gather(ctx, l.details.ID)
	}
	_, err = b.putParcels(ctx, l.details, missing{results: r, again: true})
	return err
}

// countAll counts rows of results in one change of the ledger.
func (b *Batches) countAll(ctx context.Context, batch string, rows []resultRow) (ledger, error) {
	var invalid error
	l, err := b.change(ctx, batch, func(l *ledger) (changed bool) {
		invalid = nil
		for _, row := range rows {
			added, err := l.add(row)
			changed, invalid = changed || added, cmp.Or(invalid, err)
		}
		return changed
	})
	return l, cmp.Or(err, invalid)
}

// putParcels puts the parcels that are missing, many at the same time. It
// returns how many of the first parcels need no message now, also after an
// error.
func (b *Batches) putParcels(ctx context.Context, d details, m missing) (queuedTo int, err error) {
	done := progress{next: m.from}
	puts, ctx := errgroup.WithContext(ctx)
	puts.SetLimit(putsAtOnce)
	err = func() error {
		n := -1
		for packed, err := range b.staged(ctx, d) {
			if err != nil {
				return err
			}
			if n++; n < m.from {
				continue
			}
			p := d.parcel(n)
			last, remain := m.results.open[n]
			if remain && m.again {
				if p, err = b.nextTry(packed, last); err != nil {
					return err
				}
				packed = p.pack(&b.coders, p.lines())
			} else if m.results.known.has(n) {
				done.add(n)
				continue
			}
			puts.Go(func() error {
				err := b.putPacked(ctx, d.queueOf(p.ID.Parcel, b.opt.Partitions), p, packed, 0)
				if err == nil {
					done.add(p.ID.Parcel)
				}
				return err
			})
		}
		return nil
	}()
	err = cmp.Or(puts.Wait(), err)
	return done.reached(), err
}

// nextTry returns the parcel that follows results, from the one that was staged.
func (b *Batches) nextTry(packed []byte, last resultRow) (parcel, error) {
	staged, err := b.unpackParcel(packed)
	if err != nil {
		return parcel{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return staged.again(last.remaining, last.id.Try+1)
}

// progress is how far a task came whose steps end in any order.
type progress struct {
	mu    sync.Mutex
	next  int          // every step before it has ended; guarded by mu
	later map[int]bool // steps after next that have ended; guarded by mu
}

func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.later == nil {
		p.later = make(map[int]bool)
	}
	p.later[n] = true
	for p.later[p.next] {
		delete(p.later, p.next)
		p.next++
	}
}

func (p *progress) reached() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}
