package work_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"kennel/internal/table"
	"kennel/work"
)

// order is a batch that clients submit, and what they learned.
type order struct {
	name, key string
	items     []item
	invalid   bool // its last item is invalid
	array     bool // it is sent as a JSON array

	mu    sync.Mutex
	ids   map[string]bool // of batches that were returned; guarded by mu
	tries int             // submissions that began; guarded by mu
}

// body returns what is submitted.
func (o *order) body() []byte {
	if o.array {
		body, _ := json.Marshal(o.items) // no error is possible
		return body
	}
	body := lines(o.items)
	if o.invalid {
		body = append(body, `{"id":"invalid","amount":"x"}`...)
	}
	return body
}

// submit submits the batch once.
func (o *order) submit(ctx context.Context, p *process) (work.Batch, bool, error) {
	o.mu.Lock()
	o.tries++
	o.mu.Unlock()
	b, created, err := p.Submit(ctx, work.Submission{
		Processor: processor, Name: o.name, Key: o.key, Body: bytes.NewReader(o.body()), Array: o.array,
	})
	if err == nil && !p.Dead() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.ids == nil {
			o.ids = make(map[string]bool)
		}
		if created && o.ids[b.ID] && o.key == "" {
			p.w.t.Errorf("batch %s was created twice", b.ID)
		}
		o.ids[b.ID] = true
		if o.invalid {
			p.w.t.Errorf("an invalid batch was accepted: %+v", b)
		}
		if b.Items != len(o.items) || b.Name != o.name || b.Processor != processor {
			p.w.t.Errorf("submitted %d items as %q, returned %+v", len(o.items), o.name, b)
		}
	}
	return b, created, err
}

// returned reports whether a submission was confirmed.
func (o *order) returned() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.ids) > 0
}

// settled reports whether no batch is unfinished and no message is left.
func (w *world) settled() bool {
	if w.rows.Rows(activeRows) > 0 {
		return false
	}
	messages, _ := w.left()
	return messages == 0
}

// await waits in virtual time until nothing is left to do.
func (w *world) await(ctx context.Context, limit time.Duration) bool {
	for end := time.Now().Add(limit); !w.settled(); {
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return false
		}
		if w.t.Failed() {
			return false // what is wrong may multiply messages, and take hours
		}
		if time.Now().After(end) {
			messages, _ := w.left()
			w.t.Errorf("after %v, %d batches are not finished and %d messages are left", limit, w.rows.Rows(activeRows), messages)
			for _, name := range queueNames(maxPartitions) {
				for _, m := range w.queues.All(name) {
					w.t.Logf("%s: %+v", name, m)
				}
			}
			w.list(w.start(nil, nil), true, func(b work.Batch) { w.t.Logf("%+v", b) })
			return false
		}
	}
	return true
}

// list calls do for each batch in the list.
func (w *world) list(p *process, newest bool, do func(work.Batch)) {
	for page := (work.Page{Top: 2}); ; {
		l, err := p.List(w.t.Context(), newest, page)
		if err != nil {
			w.t.Error("list: ", err)
			return
		}
		for _, b := range l.Items {
			do(b)
		}
		if page.Continuation = l.Continuation; page.Continuation == "" {
			return
		}
	}
}

// check checks that each order that was accepted is one finished batch, and that
// nothing else is left: no message, no staged blob and no row of unfinished
// batches. It is called after await, without faults.
func (w *world) check(orders []*order, claims int) {
	w.t.Helper()
	p := w.start(nil, nil)
	byName := make(map[string][]work.Batch)
	var oldest, newest []string
	w.list(p, false, func(b work.Batch) {
		oldest = append(oldest, b.ID)
		byName[b.Name] = append(byName[b.Name], b)
	})
	w.list(p, true, func(b work.Batch) { newest = append(newest, b.ID) })
	if slices.Reverse(newest); !slices.Equal(oldest, newest) {
		w.t.Errorf("the lists differ: %q, %q", oldest, newest)
	}
	known := 0
	for _, o := range orders {
		batches := byName[o.name]
		known += len(batches)
		maxBatches := o.tries
		switch {
		case o.invalid:
			maxBatches = 0
		case o.key != "":
			maxBatches = 1
		}
		if len(batches) > maxBatches {
			w.t.Errorf("%d batches %q after %d submissions with key %q", len(batches), o.name, o.tries, o.key)
		}
		for id := range o.ids {
			if !slices.ContainsFunc(batches, func(b work.Batch) bool { return b.ID == id }) {
				w.t.Errorf("batch %s of %q was returned, but is not in the list", id, o.name)
			}
		}
		for _, b := range batches {
			w.checkBatch(p, o, b)
		}
	}
	if known != len(oldest) {
		w.t.Errorf("%d batches, %d of them were submitted", len(oldest), known)
	}
	if messages, dead := w.left(); messages+dead > 0 {
		w.t.Errorf("%d messages and %d dead letters are left", messages, dead)
	}
	if n := w.rows.Rows(activeRows); n > 0 {
		w.t.Errorf("%d unfinished batches are left", n)
	}
	if left := w.claimRows.Rows("") + len(w.claimBlobs.Names()); left > claims {
		w.t.Errorf("%d rows and blobs of claims are left", left)
	}
}

// checkBatch checks that each item of a batch has one result, that they add up
// to its numbers and its report, and that it ended once.
func (w *world) checkBatch(p *process, o *order, b work.Batch) {
	w.t.Helper()
	ctx := w.t.Context()
	got, err := p.Get(ctx, b.ID)
	if err != nil || got.State != work.Done || got.FinishedAt == nil || got.Error != "" {
		w.t.Errorf("batch %q: %+v, %v, want it done", o.name, got, err)
		return
	}
	if got.FinishedAt.Before(got.SubmittedAt) || w.ledgers.ends(b.ID) > 1 {
		w.t.Errorf("batch %q ended %d times, at last at %v, submitted at %v", o.name, w.ledgers.ends(b.ID), got.FinishedAt, got.SubmittedAt)
	}
	if b.FinishedAt == nil || !b.FinishedAt.Equal(*got.FinishedAt) || b.State != work.Done || b.Done != got.Done {
		w.t.Errorf("batch %+v is %+v in the list", got, b)
	}
	if w.sums.ends(b.ID) == 0 {
		w.t.Errorf("the processor was not told that batch %q ended", o.name)
	}
	results := make(map[string]work.Result)
	for page := (work.Page{Top: 7}); ; {
		if len(o.items) > 50 {
			page.Top = 1000
		}
		l, err := p.Results(ctx, b.ID, page)
		if err != nil {
			w.t.Errorf("results of %q: %v", o.name, err)
			return
		}
		for _, r := range l.Items {
			if _, twice := results[r.ID]; twice {
				w.t.Errorf("item %s of %q has two results", r.ID, o.name)
			}
			results[r.ID] = r
		}
		if page.Continuation = l.Continuation; page.Continuation == "" {
			break
		}
	}
	counts := make(map[work.Outcome]int)
	for _, i := range o.items {
		r, ok := results[i.ID]
		counts[r.Outcome]++
		var a amount
		switch {
		case !ok:
			w.t.Errorf("item %s of %q has no result", i.ID, o.name)
		case r.Outcome != i.outcome() || (r.Error == "") != (r.Outcome == work.ItemDone):
			w.t.Errorf("item %s of %q: %+v, want %s", i.ID, o.name, r, i.outcome())
		case r.Outcome == work.ItemDone && (json.Unmarshal(r.Result, &a) != nil || a.Amount != i.Amount):
			w.t.Errorf("item %s of %q: result %s, want %d", i.ID, o.name, r.Result, i.Amount)
		}
	}
	if len(results) != len(o.items) || got.Items != len(o.items) || got.Done != counts[work.ItemDone] ||
		got.Rejected != counts[work.ItemRejected] || got.Failed != counts[work.ItemFailed] {
		w.t.Errorf("batch %q of %d items: %d results, %+v, counted %v", o.name, len(o.items), len(results), got, counts)
	}
	wantJSON, wantCSV := expected(b.ID, o.items)
	gotJSON, errJSON := p.Report(ctx, b.ID, false)
	gotCSV, errCSV := p.Report(ctx, b.ID, true)
	if err := errors.Join(errJSON, errCSV); err != nil || string(gotJSON) != wantJSON || string(gotCSV) != wantCSV {
		w.t.Errorf("report of %q: %.300s %s, %v, want %.300s %s", o.name, gotJSON, gotCSV, err, wantJSON, wantCSV)
	}
}

// checkRetention sweeps after the retention of all batches, with p as long as it
// lives, and checks that nothing of them is left.
func (w *world) checkRetention(p *process) {
	w.t.Helper()
	time.Sleep(31 * 24 * time.Hour)
	for range 4 {
		if p.Dead() {
			p = w.start(nil, nil)
		}
		ctx, cancel := context.WithTimeout(p.Context(), 4*time.Minute)
		_, err := p.Sweep(ctx)
		cancel()
		if err != nil && !p.Dead() {
			w.t.Errorf("sweep: %v", err)
		}
		time.Sleep(time.Minute)
	}
	if _, err := w.start(nil, nil).claims.Sweep(w.t.Context(), time.Now()); err != nil {
		w.t.Error(err)
	}
	if rows, staged, reports := w.rows.Rows(""), w.staging.Names(), w.reports.Names(); rows+len(staged)+len(reports) > 0 {
		w.t.Errorf("after the retention, %d rows, staged blobs %q and reports %q are left", rows, staged, reports)
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		page, err := w.rows.Query(ctx, table.Query{Top: 100})
		for _, row := range page.Rows {
			w.t.Logf("%s %s %.300v, %v", row.Partition, row.Key, row.Values, err)
		}
	}
	if left := w.claimRows.Rows("") + len(w.claimBlobs.Names()); left > 0 {
		w.t.Errorf("after the retention, %d rows and blobs of claims are left", left)
	}
}

// checkStaging checks that no staged blob is left.
func (w *world) checkStaging(t *testing.T) {
	t.Helper()
	if names := w.staging.Names(); len(names) > 0 {
		t.Errorf("staged blobs are left: %q", names)
	}
}
