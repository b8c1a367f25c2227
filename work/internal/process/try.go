package process

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
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
	goexited = "the processor ended its goroutine (runtime.Goexit)"
	waiting  = "it waits for its next attempt"
)

// firstDelay is the wait before the second attempt of an item. It doubles with
// each further one up to maxDelay, and is less by up to a half of it, the same for
// all items of a parcel.
const (
	firstDelay = 10 * time.Second
	maxDelay   = 4 * time.Hour
)

// together is the part of the wait of an item by which it may be longer, so that
// more items are tried in one try of their parcel.
const together = 8

// ending is how one try of an item ended; zero while it has not.
type ending struct {
	outcome model.Outcome // ItemFailed: a failed try
	result  []byte        // compact JSON, if it is done
	err     string        // otherwise

	isFree  bool           // this was no attempt
	wait    *time.Duration // what the processor decided; nil: the usual one
	atLeast bool           // the usual one if that is longer
}

// run is one try of a parcel: workers that each process an item at a time.
type run struct {
	w         *Worker
	processor model.Processor
	parcel    format.Parcel
	attempts  int           // of an item
	places    chan struct{} // an item that runs has one; nil: there is no bound
	began     time.Time
	until     time.Time // no item begins later; zero: no limit

	mu       sync.Mutex
	next     int           // item to begin; guarded by mu
	endings  []ending      // by item; guarded by mu
	begun    int           // items that have begun and not ended; guarded by mu
	size     int           // bytes of the results so far; guarded by mu
	line     []byte        // for their length; guarded by mu
	workers  int           // guarded by mu
	begunAll chan struct{} // closed when no item is left to begin
	idle     chan struct{}

	most    int    // results of items that are stored
	refused string // why the others are not
}

// Try processes the items of a parcel. The row of the run that it returns is to be
// inserted.
func (w *Worker) Try(ctx context.Context, processor model.Processor, p format.Parcel) (*run, error) {
	attempts, atOnce := w.bounds(p.Processor)
	r := &run{
		w: w, processor: processor, parcel: p, began: time.Now(), attempts: attempts, places: w.places.free(p.Processor, atOnce),
		endings: make([]ending, len(p.Items)), begunAll: make(chan struct{}), idle: make(chan struct{}), most: len(p.Items),
	}
	r.skip()
	if deadline, ok := ctx.Deadline(); ok {
		r.until = deadline.Add(-StopEarly)
		if !time.Now().Before(r.until) {
			return nil, ErrNoTime
		}
	}
	r.workers = min(cmp.Or(atOnce, w.Options.Parallel), len(p.Items))
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
// replaced by its timer, which all its items share, and one whose goroutine was
// ended by an item is replaced at once.
func (r *run) work(ctx context.Context) {
	var at current
	watch := time.AfterFunc(math.MaxInt64, func() {
		if r.abandon(&at) {
			r.w.Options.Log.Warn("a processor ignores the end of its context; its goroutine is abandoned", "processor", r.parcel.Processor, "batch", r.parcel.Batch)
			r.work(ctx)
		}
	})
	defer watch.Stop()
	for r.one(ctx, &at, watch) {
	}
}

// one processes the next item, if one may begin, and reports whether the worker
// goes on.
func (r *run) one(ctx context.Context, at *current, watch *time.Timer) (goesOn bool) {
	defer r.enter(ctx)()
	i, limit, ok := r.begin(ctx, at)
	if !ok {
		return false
	}
	watch.Reset(limit + Grace)
	returned := false
	defer func() {
		if !returned && r.end(i, ending{outcome: model.ItemFailed, err: goexited}) {
			go r.work(ctx)
		}
	}()
	e := r.call(ctx, i, limit)
	returned = true
	return r.end(i, e)
}

// enter waits for a place of the processor, while items may begin. leave frees it.
func (r *run) enter(ctx context.Context) (leave func()) {
	if r.places == nil {
		return func() {}
	}
	wait, cancel := ctx, context.CancelFunc(func() {})
	if !r.until.IsZero() {
		wait, cancel = context.WithDeadline(ctx, r.until)
	}
	defer cancel()
	select {
	case r.places <- struct{}{}:
		return func() { <-r.places }
	case <-r.begunAll:
	case <-wait.Done():
	}
	return func() {}
}

// skip goes to the next item that is to be tried. Its caller has mu, or is alone.
func (r *run) skip() {
	for r.next < len(r.endings) && r.parcel.Wait(r.next) > 0 {
		r.next++
	}
	if r.next == len(r.endings) {
		close(r.begunAll)
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
	r.skip()
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
	if len(r.endings) > model.ParcelItems && !r.repeats(i, e) { // else items that fail would keep those behind them from every try
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
	item.Batch, item.Try = r.parcel.Batch, r.parcel.Tried(i)+1
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
	e = ending{outcome: model.ItemFailed, err: cmp.Or(err.Error(), unknown)}
	if later, ok := errors.AsType[*model.Later](err); ok {
		e.isFree, e.wait, e.atLeast = later.Snoozed, new(min(max(0, later.Wait), model.MaxWait)), later.AtLeast
	}
	return e
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
func (r *run) repeats(i int, e ending) bool {
	return e.outcome == model.ItemFailed && r.parcel.ID.Try < model.ParcelTries-1 && (e.isFree || r.used(i, e) < r.attempts)
}

// used returns how many attempts an item has used that ended so.
func (r *run) used(i int, e ending) int {
	if e.isFree {
		return r.parcel.Tried(i)
	}
	return r.parcel.Tried(i) + 1
}

// Row returns the results. Items that failed and have attempts left, did not
// begin, wait, or have no place in the row, remain for the next try.
func (r *run) Row() format.ResultRow {
	row, left := format.ResultRow{ID: r.parcel.ID}, r.most
	body := append(make([]byte, 0, 128*len(r.endings)), format.ResultsVersion+"\n"...)
	var spans []span
	share := 0.5 + rand.Float64()/2 // of the usual wait
	for i, e := range r.endings {
		switch {
		case r.parcel.Wait(i) > 0:
			e = ending{outcome: model.ItemFailed, err: waiting, isFree: true, wait: new(max(0, r.parcel.Wait(i)-time.Since(r.began)))}
		case e.outcome == "":
			e = ending{outcome: model.ItemFailed, err: notBegun, isFree: true, wait: new(time.Duration(float64(firstDelay) * share))}
		}
		if left == 0 && !e.isFree {
			e = ending{outcome: model.ItemFailed, err: r.refused}
		}
		repeats := r.repeats(i, e)
		if !repeats && left > 0 {
			left--
		}
		switch {
		case e.outcome == model.ItemDone:
			row.Done++
		case e.outcome == model.ItemRejected:
			row.Rejected++
		case repeats:
			used := r.used(i, e)
			if row.Item == "" || used > slices.Max(row.Attempts) {
				row.Item, row.Cause = r.parcel.Items[i].ID, e.err
			}
			row.Remaining = append(row.Remaining, r.parcel.Index(i))
			row.Attempts = append(row.Attempts, used)
			spans = append(spans, r.again(i, e, time.Duration(float64(usualWait(used))*share)))
			continue
		default:
			row.Failed++
			e.err = r.lastWords(i, e)
		}
		body = format.AppendResult(body, r.result(i, e))
	}
	if row.Count() > 0 {
		row.Packed = r.w.Coders.Compress(body)
	}
	if len(spans) > 0 {
		var next time.Duration
		if next, row.Waits = nextTry(spans, spacing(row.ID.Try)); row.ID.Try == model.ParcelTries-2 {
			// The last try has all items: none fails while it waits for an attempt.
			for _, again := range spans {
				next = max(next, again.from)
			}
			row.Waits = nil
		}
		row.NextAt = time.Now().Add(next)
	}
	return row
}

// again returns when an item that ended so is tried again. usual is its usual
// wait.
func (r *run) again(i int, e ending, usual time.Duration) span {
	wait := usual
	switch {
	case e.wait != nil && e.atLeast:
		wait = max(usual, *e.wait)
	case e.wait != nil:
		wait = *e.wait
	}
	again := spanOf(wait)
	if r.parcel.Wait(i) > 0 {
		again.to = again.from
	}
	return again
}

// lastWords returns the error of an item that has failed.
func (r *run) lastWords(i int, e ending) string {
	if used := r.used(i, e); !e.isFree && used >= r.attempts {
		return fmt.Sprintf("attempt %d of %d: %s", used, r.attempts, e.err)
	}
	return fmt.Sprintf("items of its parcel were tried %d times: %s", model.ParcelTries, e.err)
}

// usualWait returns the longest wait of an item that has used so many attempts.
func usualWait(used int) time.Duration {
	wait := firstDelay
	for ; used > 1 && wait < maxDelay; used-- {
		wait *= 2
	}
	return min(wait, maxDelay)
}

// spacing returns how long at least the next try of a parcel follows after a try.
// It is nothing for the first hundred. Then it grows, so that an item that is put
// off for a second each time, or finds no place to begin, does not use up the tries
// of its parcel in minutes: the last one is 13 days later.
func spacing(try int) time.Duration {
	if try < freeTries {
		return 0
	}
	return time.Duration(min(float64(firstDelay)*math.Pow(1.1, float64(try-freeTries)), float64(maxDelay)))
}

const freeTries = 100

// span is when an item is tried again, from now: not before from, and at to at the
// latest.
type span struct{ from, to time.Duration }

// spanOf returns the span of an item that has just been tried.
func spanOf(wait time.Duration) span { return span{wait, wait + max(wait/together, time.Second)} }

// nextTry returns when the next try of a parcel begins whose items wait so long,
// and for how many milliseconds more each of them waits; nil: none does. The tries
// of all of them are as few as their spans allow. An item that waits more has a
// span without length from then on: it is not delayed again for others. No try
// begins before least.
func nextTry(spans []span, least time.Duration) (next time.Duration, more []int64) {
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(spans[a].to, spans[b].to) })
	begins := make([]time.Duration, len(spans))
	for len(order) > 0 {
		n, begin, last := 0, least, max(least, spans[order[0]].to)
		for ; n < len(order) && spans[order[n]].from <= last; n++ {
			begin = max(begin, spans[order[n]].from)
		}
		for _, i := range order[:n] {
			begins[i] = begin
		}
		order = order[n:]
	}
	next = slices.Min(begins)
	for i, begin := range begins {
		if begin == next {
			continue
		}
		if more == nil {
			more = make([]int64, len(begins))
		}
		more[i] = max(1, (begin - next + time.Millisecond - 1).Milliseconds())
	}
	return next, more
}

// result returns the result of an item.
func (r *run) result(i int, e ending) model.Result {
	return model.Result{ID: r.parcel.Items[i].ID, Outcome: e.outcome, Result: e.result, Error: model.ShortError(e.err)}
}
