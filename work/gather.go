package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/table"
	"kennel/internal/trace"
	"kennel/work/internal/model"
)

// maxReport bounds a report, which is in memory whole.
const maxReport = 128 << 20

// errReport reports that the results of a batch cannot be reduced to a report,
// now or later.
var errReport = errors.New("the report cannot be made")

// gather makes the report of a batch whose items all have results, and removes
// what only an unfinished batch needs. It is called again if it did not return
// nil, and may be called concurrently: every call makes the same report, and the
// first one that gets so far ends the batch.
func (b *Batches) gather(ctx context.Context, id string) (err error) {
	p := b.ledgers.open(id, nil)
	defer b.ledgers.close(p, nil)
	select {
	case p.gathering <- struct{}{}: // at most one in this process
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.gathering }()

	ctx, spent := withTally(ctx)
	l, err := b.ledger(ctx, id)
	if err != nil {
		return err
	}
	ctx, span := startSpan(trace.Within(ctx, l.details.TraceParent), "gather", id)
	defer func() { endSpan(span, err) }()
	if l.state == Gathering {
		if l, err = b.end(ctx, spent, l); err != nil {
			return fmt.Errorf("gather batch %s: %w", id, err)
		}
	}
	if l.ended() {
		return b.cleanUp(ctx, l)
	}
	return nil
}

// end makes the report and changes the state to Done, or to Failed.
func (b *Batches) end(ctx context.Context, spent *tally, l ledger) (ledger, error) {
	err := b.report(ctx, l)
	if err != nil && !errors.Is(err, errReport) {
		return ledger{}, err
	}
	opened := time.Time{}
	if b.opt.Gate != nil {
		var gateErr error
		if opened, gateErr = b.opt.Gate.Opened(ctx); gateErr != nil {
			return ledger{}, gateErr
		}
	}
	now := time.Now()
	return b.change(ctx, l.details.ID, func(l *ledger) bool {
		if l.state != Gathering {
			return false
		}
		l.state = Done
		if err != nil {
			l.state, l.err = Failed, model.ShortError(err.Error())
		}
		l.finishedAt = now
		l.lateBy = b.late(l.details.SubmittedAt, opened, now)
		l.operations += spent.total() + float64(l.details.Chunks+3) // with those of cleanUp
		return true
	})
}

// report makes and stores the report.
func (b *Batches) report(ctx context.Context, l ledger) error {
	processor := b.processors[l.details.Processor]
	if processor == nil {
		return fmt.Errorf("%q: %w", l.details.Processor, ErrProcessor)
	}
	var report Report
	if err := guarded(func() error { report = processor.NewReport(l.details.ID); return nil }); err != nil {
		return fmt.Errorf("%w: %w", errReport, err)
	}
	var of [3]int
	for row, err := range b.rowsAbove(ctx, l.details.ID, resultKey, table.MaxPage) {
		if err != nil {
			return err
		}
		results, err := b.results(l.details.ID, row)
		if err != nil {
			return err
		}
		for _, r := range results {
			of[place(r.Outcome)]++
			if err := guarded(func() error { return report.Add(r) }); err != nil {
				return fmt.Errorf("%w: add item %.80q: %w", errReport, r.ID, err)
			}
		}
	}
	if want := [3]int{l.done, l.rejected, l.failed}; of != want {
		return fmt.Errorf("there are %v results that are done, rejected and failed; %v were counted: %w", of, want, ErrCorrupt)
	}
	for _, kind := range []struct {
		name string
		make func() ([]byte, error)
	}{{reportName(l.details.ID, false), report.JSON}, {reportName(l.details.ID, true), report.CSV}} {
		var content []byte
		err := guarded(func() (err error) {
			content, err = kind.make()
			return err
		})
		if err == nil && len(content) > maxReport {
			err = fmt.Errorf("%d bytes are more than %d", len(content), maxReport)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errReport, err)
		}
		if err := b.reports.put(ctx, kind.name, content); err != nil {
			return fmt.Errorf("store the report: %w", err)
		}
	}
	return nil
}

// guarded returns a panic of a processor's code as an error.
func guarded(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the processor panicked: " + panicText(p))
		}
	}()
	return call()
}

// reportName returns the name of the blob with the report of a batch.
func reportName(id string, csv bool) string {
	if csv {
		return id + ".csv"
	}
	return id + ".json"
}

// cleanUp removes what only an unfinished batch needs. The row that lets the
// sweep find the batch is removed last; without it, nothing is left.
func (b *Batches) cleanUp(ctx context.Context, l ledger) error {
	id := l.details.ID
	switch _, err := b.rows.Get(ctx, activeIn, id); {
	case errors.Is(err, table.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("finish batch %s: %w", id, err)
	}
	final := b.view(ctx, l)
	if _, err := b.rows.Submit(ctx, listRows(l.details, &final)...); err != nil {
		return fmt.Errorf("list batch %s: %w", id, err)
	}
	if err := b.unstage(ctx, l.details); err != nil {
		return err
	}
	_, err := b.rows.Submit(ctx, table.Write{Verb: table.Delete, Row: table.Row{Partition: activeIn, Key: id}, If: table.AnyVersion})
	if err != nil && !errors.Is(err, table.ErrNotFound) {
		return fmt.Errorf("finish batch %s: %w", id, err)
	}
	return nil
}
