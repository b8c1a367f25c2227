package collect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/table"
	"kennel/internal/trace"
	"kennel/work/internal/base"
	"kennel/work/internal/format"
	"kennel/work/internal/model"
	"kennel/work/internal/store"
)

// MaxReport bounds a report, which is in memory whole.
const MaxReport = 128 << 20

// errReport reports that the results of a batch cannot be reduced to a report,
// now or later.
var errReport = errors.New("the report cannot be made")

// Gather makes the report of a batch whose items all have results, and removes
// what only an unfinished batch needs. It is called again if it did not return
// nil, and may be called concurrently: every call makes the same report, and the
// first one that gets so far ends the batch.
func (c *Collector) Gather(ctx context.Context, id string) (err error) {
	done, err := c.Store.Gathering(ctx, id) // at most one in this process
	if err != nil {
		return err
	}
	defer done()

	ctx, spent := store.WithTally(ctx)
	l, err := c.Store.BatchRow(ctx, id)
	if err != nil {
		return err
	}
	ctx, span := base.StartSpan(trace.Within(ctx, l.Details.TraceParent), "gather", id)
	defer func() { base.EndSpan(span, err) }()
	if l.State == model.Gathering {
		if l, err = c.end(ctx, spent, l); err != nil {
			return fmt.Errorf("gather batch %s: %w", id, err)
		}
	}
	if l.Ended() {
		_, err = c.CleanUp(ctx, l)
	}
	return err
}

// end makes the report and changes the state to Done, or to Failed.
func (c *Collector) end(ctx context.Context, spent *store.Tally, l format.BatchRow) (format.BatchRow, error) {
	err := c.report(ctx, l)
	if err != nil && !errors.Is(err, errReport) {
		return format.BatchRow{}, err
	}
	opened := time.Time{}
	if c.Options.Gate != nil {
		var gateErr error
		if opened, gateErr = c.Options.Gate.Opened(ctx); gateErr != nil {
			return format.BatchRow{}, gateErr
		}
	}
	now := time.Now()
	return c.Store.Change(ctx, l.Details.ID, func(l *format.BatchRow) bool {
		if l.State != model.Gathering {
			return false
		}
		l.State = model.Done
		if err != nil {
			l.State, l.Err = model.Failed, model.ShortError(err.Error())
		}
		l.FinishedAt = now
		l.LateBy = c.Late(l.Details.SubmittedAt, opened, now)
		l.Operations += spent.Total() + float64(l.Details.Chunks+3) // with those of cleanUp
		return true
	})
}

// report makes and stores the report.
func (c *Collector) report(ctx context.Context, l format.BatchRow) error {
	processor := c.Processors[l.Details.Processor]
	if processor == nil {
		return fmt.Errorf("%q: %w", l.Details.Processor, model.ErrProcessor)
	}
	var report model.Report
	if err := guarded(func() error { report = processor.NewReport(l.Details.ID); return nil }); err != nil {
		return fmt.Errorf("%w: %w", errReport, err)
	}
	var of [3]int
	for row, err := range c.Store.RowsAbove(ctx, l.Details.ID, format.ResultKey, table.MaxPage) {
		if err != nil {
			return err
		}
		results, err := row.Results(&c.Coders, l.Details.ID)
		if err != nil {
			return err
		}
		for _, r := range results {
			of[format.Place(r.Outcome)]++
			if err := guarded(func() error { return report.Add(r) }); err != nil {
				return fmt.Errorf("%w: add item %.80q: %w", errReport, r.ID, err)
			}
		}
	}
	if want := [3]int{l.Done, l.Rejected, l.Failed}; of != want {
		return fmt.Errorf("there are %v results that are done, rejected and failed; %v were counted: %w", of, want, model.ErrCorrupt)
	}
	for _, kind := range []struct {
		name string
		make func() ([]byte, error)
	}{{ReportName(l.Details.ID, false), report.JSON}, {ReportName(l.Details.ID, true), report.CSV}} {
		var content []byte
		err := guarded(func() (err error) {
			content, err = kind.make()
			return err
		})
		if err == nil && len(content) > MaxReport {
			err = fmt.Errorf("%d bytes are more than %d", len(content), MaxReport)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errReport, err)
		}
		if err := c.Reports.Put(ctx, kind.name, content); err != nil {
			return fmt.Errorf("store the report: %w", err)
		}
	}
	return nil
}

// guarded returns a panic of a processor's code as an error.
func guarded(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the processor panicked: " + model.PanicText(p))
		}
	}()
	return call()
}

// ReportName returns the name of the blob with the report of a batch.
func ReportName(id string, csv bool) string {
	if csv {
		return id + ".csv"
	}
	return id + ".json"
}

// CleanUp tells the processor that the batch has ended, and removes the data that
// only an unfinished batch needs. The row that lets the sweep find the batch is
// removed last; without it, nothing is left. pending reports that the processor
// could not be told yet: then nothing was removed.
func (c *Collector) CleanUp(ctx context.Context, l format.BatchRow) (pending bool, err error) {
	id := l.Details.ID
	switch _, err := c.Store.Rows.Get(ctx, format.ActiveIn, id); {
	case errors.Is(err, table.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("finish batch %s: %w", id, err)
	}
	if pending, err := c.tell(ctx, l); pending || err != nil {
		if err != nil {
			err = fmt.Errorf("tell the end of batch %s: %w", id, err)
		}
		return pending, err
	}
	return false, c.remove(ctx, l)
}

// remove removes the data that only an unfinished batch needs.
func (c *Collector) remove(ctx context.Context, l format.BatchRow) error {
	id := l.Details.ID
	final := c.View(ctx, l)
	if _, err := c.Store.Rows.Submit(ctx, format.ListRows(l.Details, &final)...); err != nil {
		return fmt.Errorf("list batch %s: %w", id, err)
	}
	if err := c.Staging.Unstage(ctx, l.Details); err != nil {
		return err
	}
	_, err := c.Store.Rows.Submit(ctx, table.Write{Verb: table.Delete, Row: table.Row{Partition: format.ActiveIn, Key: id}, If: table.AnyVersion})
	if err != nil && !errors.Is(err, table.ErrNotFound) {
		return fmt.Errorf("finish batch %s: %w", id, err)
	}
	return nil
}
