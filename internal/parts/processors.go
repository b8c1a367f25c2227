package parts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"kennel/internal/attempt"
	"kennel/internal/config"
	"kennel/internal/program"
	"kennel/work"
	"kennel/work/processors"
)

// newProcessors returns the processors of batches, by the names that callers
// use.
func newProcessors(cfg config.Config) (map[string]work.Processor, error) {
	webhook, err := processors.NewWebhook(cfg.WebhookAllow, nil)
	if err != nil {
		return nil, fmt.Errorf("invalid setting: KENNEL_WEBHOOK_ALLOW: %w", err)
	}
	return map[string]work.Processor{
		"billing": processors.Billing{},
		"webhook": webhook,
	}, nil
}

// processorsOf returns the processors of a program: those that its author
// declared, and with all parts those of the Kennel app.
func processorsOf(cfg config.Config, d *program.Declared, l *life, log *slog.Logger) (map[string]work.Processor, error) {
	all := make(map[string]work.Processor)
	if d.Everything {
		var err error
		if all, err = newProcessors(cfg); err != nil {
			return nil, err
		}
	}
	for _, p := range d.Processors {
		if all[p.Name] != nil {
			return nil, fmt.Errorf("processor %q is built in: use another name", p.Name)
		}
		own := ownProcessor{p, d, l, log}
		all[p.Name] = own
		if p.Parcel > 0 {
			all[p.Name] = sizedProcessor{own}
		}
	}
	return all, nil
}

// ownProcessor is a processor that the program's author declared.
type ownProcessor struct {
	declared *program.Processor
	program  *program.Declared
	life     *life
	log      *slog.Logger
}

// Validate implements [work.Processor].
func (p ownProcessor) Validate(item json.RawMessage) error { return p.declared.Check(item) }

// NewReport implements [work.Processor].
func (ownProcessor) NewReport(batch string) work.Report { return work.NewReport(batch) }

// Bounds implements [work.Bounded].
func (p ownProcessor) Bounds() (attempts, atOnce int) {
	return p.declared.MaxAttempts, p.declared.Concurrency
}

// Process implements [work.Processor].
func (p ownProcessor) Process(ctx context.Context, item work.Item) (result json.RawMessage, err error) {
	if err := p.life.wait(ctx); err != nil {
		return nil, err
	}
	a := attempt.Attempt{Processor: p.declared.Name, Batch: item.Batch, Item: item.ID, ID: item.Batch + "/" + item.ID, Number: item.Try, MaxAttempts: cmp.Or(p.declared.MaxAttempts, work.MaxTries)}
	v := attempt.Do(ctx, a, p.declared.Timeout, func(ctx context.Context) (err error) {
		result, err = p.declared.Work(ctx, item.Data)
		return err
	}, p.program.UseWork...)
	reason := v.Reason()
	if panicked, ok := errors.AsType[*attempt.PanicError](v.Err); ok { // those who submit batches read the results
		p.log.ErrorContext(ctx, "a processor panicked", "attempt", a, "error", v.Err.Error(), "stack", string(panicked.Stack))
		reason = v.Err.Error()
	}
	switch v.Outcome {
	case attempt.Done:
		return result, nil
	case attempt.Rejected:
		return nil, fmt.Errorf("%w: %s", work.ErrRejected, reason)
	}
	err = errors.New(reason) // after a stop the whole parcel is delivered again
	switch {
	case v.Outcome == attempt.Snoozed, v.Outcome == attempt.RetriedLater:
		return nil, &work.Later{Wait: v.Wait, Snoozed: v.Outcome == attempt.Snoozed, Err: err}
	case v.Outcome == attempt.Failed && a.Number < a.MaxAttempts:
		if wait, ok := attempt.WaitAfter(ctx, p.log, a, p.declared.Retry, v.Err); ok {
			return nil, &work.Later{Wait: wait, Err: err}
		}
	}
	return nil, err // and the usual wait
}

// Ended implements [work.Ender]: it calls what the author declared for the end of
// batches. A stop is no try: the context has ended then, and the caller notices.
func (p ownProcessor) Ended(ctx context.Context, b work.Batch, try int) error {
	if p.declared.OnEnd == nil {
		return nil
	}
	if err := p.life.wait(ctx); err != nil {
		return err
	}
	a := attempt.Attempt{Processor: p.declared.Name, Batch: b.ID, ID: b.ID, Number: try}
	v := attempt.DoApart(ctx, a, p.declared.Timeout, func(ctx context.Context) error { return p.declared.OnEnd(ctx, batchOf(b)) }, p.program.UseWork...)
	switch v.Outcome {
	case attempt.Done:
		return nil
	case attempt.Rejected:
		return fmt.Errorf("%w: %s", work.ErrRejected, v.Reason())
	}
	return errors.New(v.Reason())
}

var _ work.Ender = sizedProcessor{} // the app asks each processor

// sizedProcessor is one whose large batches have parcels of another size.
type sizedProcessor struct{ ownProcessor }

// ParcelItems implements [work.Sized].
func (p sizedProcessor) ParcelItems() int { return p.declared.Parcel }
