package submit

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"kennel/work/internal/format"
	"kennel/work/internal/model"
	"kennel/work/internal/store"
)

// PutsAtOnce is how many messages of a batch are put at the same time. Slow
// queues need many: with puts of two seconds, 5,000 parcels take five minutes.
const PutsAtOnce = 32

// Missing is which parcels of a batch have no message.
type Missing struct {
	Results *store.Results
	from    int  // the parcels before it were put
	Again   bool // the next tries of parcels with results are missing too
}

// PutParcels puts the parcels that are missing, many at the same time. It
// returns how many of the first parcels need no message now, also after an
// error.
func (s *Submitter) PutParcels(ctx context.Context, d format.Details, m Missing) (queuedTo int, err error) {
	done := progress{next: m.from}
	puts, ctx := errgroup.WithContext(ctx)
	puts.SetLimit(PutsAtOnce)
	err = func() error {
		n := -1
		for packed, err := range s.Staging.Staged(ctx, d) {
			if err != nil {
				return err
			}
			if n++; n < m.from {
				continue
			}
			p := d.Parcel(n)
			last, remain := m.Results.Open[n]
			wait := time.Duration(0)
			if remain && m.Again {
				if p, err = s.nextTry(packed, last); err != nil {
					return err
				}
				packed = p.Pack(&s.Coders, p.Lines())
				wait = last.Delay()
			} else if m.Results.Known.Has(n) {
				done.add(n)
				continue
			}
			puts.Go(func() error {
				err := s.PutPacked(ctx, d.QueueOf(p.ID.Parcel, s.Options.Partitions), p, packed, wait)
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
func (s *Submitter) nextTry(packed []byte, last format.ResultRow) (format.Parcel, error) {
	staged, err := format.UnpackParcel(&s.Coders, packed)
	if err != nil {
		return format.Parcel{}, fmt.Errorf("%w: %w", model.ErrCorrupt, err)
	}
	return staged.Again(last)
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
