package process

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"kennel/queue"
	"kennel/work/internal/base"
	"kennel/work/internal/collect"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
)

// Worker processes parcels.
type Worker struct {
	*base.Base
	Collector *collect.Collector
	places    places
	stuck     stuck   // items that fail repeatedly
	foreign   foreign // what only other processes can process
}

// bounds returns how many attempts an item has, and how many items of the
// processor this process works on at the same time; 0: no bound.
func (w *Worker) bounds(processor string) (attempts, atOnce int) {
	if b, ok := w.Processors[processor].(model.Bounded); ok {
		attempts, atOnce = b.Bounds()
	}
	return min(cmp.Or(attempts, model.MaxTries), model.MostTries), atOnce
}

// places bound the items of processors that a process works on at the same time.
type places struct {
	mu sync.Mutex
	of map[string]chan struct{} // by processor; guarded by mu
}

// free returns what a processor's items take a place in; nil: there is no bound.
func (p *places) free(processor string, atOnce int) chan struct{} {
	if atOnce == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[string]chan struct{})
	}
	if p.of[processor] == nil {
		p.of[processor] = make(chan struct{}, atOnce)
	}
	return p.of[processor]
}

// Foreign returns what this process has put back in the last ten minutes because
// only other processes can process it. The zero value is nothing.
func (w *Worker) Foreign() Foreign {
	w.foreign.mu.Lock()
	defer w.foreign.mu.Unlock()
	if time.Since(w.foreign.known.Last) > 2*MaxForeignDelay {
		return Foreign{}
	}
	return w.foreign.known
}

// accepts returns why this process cannot process a parcel.
func (w *Worker) accepts(p format.Parcel) error {
	processor := w.Processors[p.Processor]
	if processor == nil {
		return fmt.Errorf("processor %.80q: %w", p.Processor, model.ErrProcessor)
	}
	selective, ok := processor.(model.Selective)
	if !ok {
		return nil
	}
	for _, item := range p.Items {
		if err := selective.Accepts(item); err != nil {
			return fmt.Errorf("processor %.80q, item %.80q: %w", p.Processor, item.ID, err)
		}
	}
	return nil
}

// leave puts a copy of a message into its queue for another process, and returns
// ErrHeld.
func (w *Worker) leave(ctx context.Context, queueName string, e queue.Envelope, reason error) error {
	delay := min(max(time.Since(e.Time)/8, minForeignDelay), MaxForeignDelay)
	if err := w.PutCopy(ctx, queueName, e, delay/2+rand.N(delay/2)); err != nil {
		return fmt.Errorf("put it back for another process (%w): %w", reason, err)
	}
	if w.foreign.add(reason.Error()) {
		w.Options.Log.WarnContext(ctx, "parcel put back for another process", "queue", queueName, "message", e.ID, "error", reason.Error())
	}
	return model.ErrHeld
}

// Stuck returns the batches with items that failed more than once where this
// process tried them, those with the most attempts first.
func (w *Worker) Stuck() []Stuck {
	s := &w.stuck
	s.mu.Lock()
	defer s.mu.Unlock()
	byBatch := make(map[string]Stuck)
	for key, parcel := range s.byParcel {
		if time.Since(parcel.NextAt) > stuckLasts {
			delete(s.byParcel, key)
			continue
		}
		all, ok := byBatch[parcel.Batch]
		items, since := all.Items+parcel.Items, parcel.Since
		if ok && all.Since.Before(since) {
			since = all.Since
		}
		if parcel.Attempts > all.Attempts {
			all = parcel
		}
		all.Items, all.Since = items, since
		byBatch[parcel.Batch] = all
	}
	var found []Stuck
	for _, batch := range byBatch {
		found = append(found, batch)
	}
	slices.SortFunc(found, func(a, b Stuck) int {
		if a.Attempts != b.Attempts {
			return b.Attempts - a.Attempts
		}
		return a.Since.Compare(b.Since)
	})
	return found
}

// retryOf returns what to record of a parcel after a try, or nil: nothing remains,
// the try was made in an earlier delivery, or enough was recorded.
func (w *Worker) retryOf(p format.Parcel, row format.ResultRow) *format.Retry {
	switch {
	case len(row.Remaining) == 0:
		w.stuck.done(p.Batch, p.ID)
		return nil
	case row.Cause == "":
		return nil
	}
	most, _ := w.bounds(p.Processor)
	r := format.Retry{
		Parcel: p.ID.Parcel, Try: p.ID.Try, Items: len(row.Remaining), Item: row.Item, Error: model.ShortenTo(row.Cause, format.MaxRetryError),
		NextAt: row.NextAt.UTC(), Attempts: slices.Max(row.Attempts), MaxAttempts: most,
	}
	if !w.stuck.failed(p.Batch, r) {
		return nil
	}
	return &r
}
