package process

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"kennel/internal/table"
	"kennel/work/internal/format"
	"kennel/work/internal/items"
	"kennel/work/internal/model"
	"kennel/work/internal/store"
)

// StopEarly is how long before the deadline of its ctx Process begins no more
// items and waits no longer at a gate, so that it can store what is done.
const StopEarly = 15 * time.Second

// ErrNoTime reports that the ctx ends too soon to process an item.
var ErrNoTime = errors.New("the time of the call is too short to process items")

const (
	// Grace is how long after its time limit an item may return. Then it counts
	// as failed, and its goroutine is abandoned: its result is ignored.
	Grace = 2 * time.Second
)

// Errors of items, as texts.
const (
	Overdue  = "the processor did not return within the time limit of an item"
	notBegun = "not processed in time"
	unknown  = "the processor reported an error without a text"
)

// ending is how one try of an item ended; zero while it has not.
type ending struct {
	outcome model.Outcome // ItemFailed: a failed try
	result  []byte        // compact JSON, if it is done
	err     string        // otherwise
}

// run is one try of a parcel: workers that each process an item at a time.
type run struct {
	w         *Worker
	processor model.Processor
	parcel    format.Parcel
	until     time.Time // no item begins later; zero: no limit

	mu      sync.Mutex
	next    int      // item to begin; guarded by mu
	endings []ending // by item; guarded by mu
	begun   int      // items that have begun and not ended; guarded by mu
	size    int      // bytes of the results so far; guarded by mu
	line    []byte   // for their length; guarded by mu
	workers int      // guarded by mu
	idle    chan struct{}

	most    int    // results of items that are stored
	refused string // why the others are not
}

// Try processes the items of a parcel. The row of the run that it returns is to be
// inserted.
func (w *Worker) Try(ctx context.Context, processor model.Processor, p format.Parcel) (*run, error) {
	r := &run{w: w, processor: processor, parcel: p, endings: make([]ending, len(p.Items)), idle: make(chan struct{}), most: len(p.Items)}
	if deadline, ok := ctx.Deadline(); ok {
		r.until = deadline.Add(-StopEarly)
		if !time.Now().Before(r.until) {
			return nil, ErrNoTime
		}
	}
	r.workers = min(w.Options.Parallel, len(p.Items))
	for range r.workers {
		go r.work(ctx)
	}
	select {
	case <-r.idle:
	case <-ctx.Done(): // the workers begin no more items
		return nil, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return nil, err // which may be why items failed
	}
	return r, nil
}

// insertRun inserts the results of a run, and returns those that are stored. If
// storage refuses the row as too large, it is inserted with half of the results, and
// so on. The other items remain for the next try, or fail in the last one.
func (w *Worker) insertRun(ctx context.Context, spent *store.Tally, r *run) (format.ResultRow, error) {
	for {
		fresh := r.Row()
		fresh.Operations = spent.Total() + 1 // with the insert
		if len(fresh.Remaining) > 0 {
			fresh.Operations++
		}
		stored, err := w.Store.InsertResults(ctx, r.parcel.Batch, fresh)
		stored.Item, stored.Cause = fresh.Item, fresh.Cause
		if r.most == 0 || !errors.Is(err, table.ErrRowSize) && !errors.Is(err, table.ErrLimit) {
			return stored, err
		}
		if r.refused == "" {
			r.refused = fmt.Sprintf("storage refused a row with %d results of %d bytes as too large", fresh.Count(), len(fresh.Packed))
		}
		w.Options.Log.WarnContext(ctx, "results are too large for a row; some of the items are tried again",
			"batch", r.parcel.Batch, "parcel", r.parcel.ID.Parcel, "try", r.parcel.ID.Try, "results", fresh.Count(), "bytes", len(fresh.Packed), "error", err.Error())
		r.most = min(r.most, fresh.Count()) / 2
	}
}

// current is the item of a worker.
type current struct {
	item      int       // guarded by run.mu
	overdueAt time.Time // guarded by run.mu
}

// work processes items until none is left. A worker whose item is overdue is
// replaced by its timer, which all its items share.
func (r *run) work(ctx context.Context) {
	var at current
	watch := time.AfterFunc(math.MaxInt64, func() {
		if r.abandon(&at) {
			r.w.Options.Log.Warn("a processor ignores the end of its context; its goroutine is abandoned", "processor", r.parcel.Processor, "batch", r.parcel.Batch)
			r.work(ctx)
		}
	})
	defer watch.Stop()
	for {
		i, limit, ok := r.begin(ctx, &at)
		if !ok {
			return
		}
		watch.Reset(limit + Grace)
		if !r.end(i, r.call(ctx, i, limit)) {
			return
		}
	}
}

// begin returns the next item and its time limit, unless none may begin.
func (r *run) begin(ctx context.Context, at *current) (i int, limit time.Duration, ok bool) {
	now := time.Now()
	limit = r.w.Options.ItemTime
	if !r.until.IsZero() {
		limit = min(limit, r.until.Sub(now))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == len(r.endings) || limit <= 0 || ctx.Err() != nil || r.isFull() {
		if r.workers--; r.workers == 0 {
			close(r.idle)
		}
		return 0, 0, false
	}
	at.item, at.overdueAt = r.next, now.Add(limit+Grace)
	r.next++
	r.begun++
	return at.item, limit, true
}

// Bounds of the results of a parcel, which must fit into a row. It is stored as
// base64 in UTF-16, so rowBytes become almost 1 MiB. Those of ParcelItems items
// always fit: what makes them longest is escaped, and compressed again.
const (
	rowBytes  = 370_000
	lineBytes = 6*(model.MaxItemID+model.MaxError) + 16 // of one result at most, with its escapes
)

// isFull reports whether the results of one more item might not fit into the
// row. It then remains for the next try, and is not processed before. Its caller
// has mu.
func (r *run) isFull() bool {
	return len(r.endings) > model.ParcelItems && r.size+(r.begun+1)*lineBytes > rowBytes
}

// abandon ends the item of a worker, and reports whether it did. It does not if
// the worker went on to its next item while the timer fired.
func (r *run) abandon(at *current) bool {
	r.mu.Lock()
	i, overdueAt := at.item, at.overdueAt
	r.mu.Unlock()
	return !time.Now().Before(overdueAt) && r.end(i, ending{outcome: model.ItemFailed, err: Overdue})
}

// end records how an item ended, unless that is recorded.
func (r *run) end(i int, e ending) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.endings[i].outcome != "" {
		return false
	}
	r.endings[i] = e
	r.begun--
	if len(r.endings) > model.ParcelItems && !r.repeats(e) { // else items that fail would keep those behind them from every try
		r.line = format.AppendResult(r.line[:0], r.result(i, e))
		r.size += len(r.line)
	}
	return true
}

// call processes one item. It survives panics, also of the methods of errors.
func (r *run) call(ctx context.Context, i int, limit time.Duration) (e ending) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			e = ending{outcome: model.ItemFailed, err: "the processor panicked: " + model.PanicText(p)}
		}
	}()
	item := r.parcel.Items[i]
	item.Batch, item.Try = r.parcel.Batch, r.parcel.ID.Try+1
	returned, err := r.processor.Process(ctx, item)
	var result []byte
	if err == nil {
		result, err = compactResult(returned)
	}
	switch {
	case err == nil:
		return ending{outcome: model.ItemDone, result: result}
	case errors.Is(err, model.ErrRejected):
		// The outcome has this word already.
		reason := strings.TrimPrefix(err.Error(), model.ErrRejected.Error()+": ")
		return ending{outcome: model.ItemRejected, err: cmp.Or(reason, unknown)}
	}
	return ending{outcome: model.ItemFailed, err: cmp.Or(err.Error(), unknown)}
}

// compactResult returns the result as it is stored.
func compactResult(result json.RawMessage) ([]byte, error) {
	if len(result) <= model.MaxResult && items.IsPlain(result) && utf8.Valid(result) {
		return slices.Clone([]byte(result)), nil // the processor may use its own again
	}
	var compact bytes.Buffer
	compact.Grow(min(len(result), model.MaxResult))
	switch err := json.Compact(&compact, result); {
	case err != nil:
		return nil, fmt.Errorf("the processor returned invalid JSON: %w", err)
	case compact.Len() > model.MaxResult:
		return nil, fmt.Errorf("the result has %d bytes, more than %d", compact.Len(), model.MaxResult)
	case !utf8.Valid(compact.Bytes()):
		return nil, errors.New("the processor returned invalid UTF-8")
	}
	return compact.Bytes(), nil
}

// repeats reports whether an item that ended so remains for the next try.
func (r *run) repeats(e ending) bool {
	return e.outcome == model.ItemFailed && r.parcel.ID.Try < model.MaxTries-1
}

// Row returns the results. Items that failed, did not begin, or have no place in
// the row, remain for the next try, or fail in the last one.
func (r *run) Row() format.ResultRow {
	row, left := format.ResultRow{ID: r.parcel.ID}, r.most
	body := append(make([]byte, 0, 128*len(r.endings)), format.ResultsVersion+"\n"...)
	for i, e := range r.endings {
		if e.outcome == "" {
			e = ending{outcome: model.ItemFailed, err: notBegun}
		}
		if left == 0 {
			e = ending{outcome: model.ItemFailed, err: r.refused}
		}
		if !r.repeats(e) && left > 0 {
			left--
		}
		switch {
		case e.outcome == model.ItemDone:
			row.Done++
		case e.outcome == model.ItemRejected:
			row.Rejected++
		case r.repeats(e):
			if row.Remaining = append(row.Remaining, r.parcel.Index(i)); len(row.Remaining) == 1 {
				row.Item, row.Cause = r.parcel.Items[i].ID, e.err
			}
			continue
		default:
			row.Failed++
			e.err = fmt.Sprintf("attempt %d of %d: %s", r.parcel.ID.Try+1, model.MaxTries, e.err)
		}
		body = format.AppendResult(body, r.result(i, e))
	}
	if row.Count() > 0 {
		row.Packed = r.w.Coders.Compress(body)
	}
	return row
}

// result returns the result of an item.
func (r *run) result(i int, e ending) model.Result {
	return model.Result{ID: r.parcel.Items[i].ID, Outcome: e.outcome, Result: e.result, Error: model.ShortError(e.err)}
}
