package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/attempt"
	"kennel/internal/program"
	"kennel/internal/queues"
	"kennel/relay"
	"kennel/work"
)

// jobs are the built-in parts that the code of an author calls; nil are those
// that the program does not use.
type jobs struct {
	sequences *ids.Set
	gates     *gate.Gates
	batches   func() (*work.Batches, error)
	bus       busSender
}

// busSender sends messages to Service Bus.
type busSender interface {
	Send(ctx context.Context, entity string, m *relay.Message) (relay.Receipt, error)
}

// CheckSequence returns an error for a name that no sequence can have.
func CheckSequence(name string) error { return ids.CheckName(name) }

// CheckGate returns an error for a name that no gate can have.
func CheckGate(name string) error { return gate.CheckName(name) }

// Send sends a message to a declared queue and returns its id.
func (r *Running) Send(ctx context.Context, queue string, body []byte, delay time.Duration) (id string, err error) {
	id, err = r.queues.Send(ctx, queue, body, delay)
	if errors.Is(err, queues.ErrTooLarge) || errors.Is(err, queues.ErrDelay) {
		err = fmt.Errorf("%w: %w", program.ErrInvalid, err)
	}
	return id, err
}

// errCount reports a number of numbers that cannot be reserved at once.
var errCount = errors.New("the count is not valid")

// NextNumbers reserves consecutive numbers and returns the first one.
func (r *Running) NextNumbers(ctx context.Context, sequence string, count int) (first int64, err error) {
	if count < 1 || count > ids.MaxLease {
		return 0, fmt.Errorf("numbers %q: %w: it is %d; use 1 to %d", sequence, errCount, count, ids.MaxLease)
	}
	if count == 1 {
		return r.jobs.sequences.Next(ctx, sequence)
	}
	lease, err := r.jobs.sequences.Lease(ctx, sequence, count)
	return lease.First, err
}

// WaitAtGate returns when the gate is open.
func (r *Running) WaitAtGate(ctx context.Context, name string) error {
	seen := int64(gate.Now)
	for {
		waited, err := r.jobs.gates.Wait(ctx, name, seen, gate.MaxWait)
		switch {
		case err != nil || waited.Passed:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		seen = waited.Generation
	}
}

// ChangeGate releases or closes a gate.
func (r *Running) ChangeGate(ctx context.Context, name, by, reason string, release bool) (err error) {
	change := gate.Change{By: by, Reason: reason}
	if release {
		_, err = r.jobs.gates.Release(ctx, name, change)
	} else {
		_, err = r.jobs.gates.Close(ctx, name, change)
	}
	return err
}

// SubmitBatch submits a batch of lines.
func (r *Running) SubmitBatch(ctx context.Context, processor, name, key string, lines io.Reader) (program.Batch, error) {
	batches, err := r.jobs.batches()
	if err != nil {
		return program.Batch{}, err
	}
	b, _, err := batches.Submit(ctx, work.Submission{Processor: processor, Name: name, Key: key, Body: lines})
	if invalid, ok := errors.AsType[*work.ItemErrors](err); ok {
		errs := []error{err}
		for _, item := range invalid.Items {
			errs = append(errs, fmt.Errorf("item %d: %s", item.Line, item.Message))
		}
		err = errors.Join(errs...)
	}
	return batchOf(b), err
}

// Batch returns a batch.
func (r *Running) Batch(ctx context.Context, id string) (program.Batch, error) {
	batches, err := r.jobs.batches()
	if err != nil {
		return program.Batch{}, err
	}
	b, err := batches.Get(ctx, id)
	return batchOf(b), err
}

func batchOf(b work.Batch) program.Batch {
	out := program.Batch{
		ID: b.ID, Name: b.Name, Processor: b.Processor, State: string(b.State), Error: b.Error,
		Items: b.Items, Done: b.Done, Rejected: b.Rejected, Failed: b.Failed, SubmittedAt: b.SubmittedAt,
	}
	if b.FinishedAt != nil {
		out.FinishedAt = *b.FinishedAt
	}
	return out
}

// resultsPage is how many results one page has.
const resultsPage = 1000

// Results returns the results of a batch so far.
func (r *Running) Results(ctx context.Context, id string) iter.Seq2[program.RawResult, error] {
	return func(yield func(program.RawResult, error) bool) {
		batches, err := r.jobs.batches()
		for page := (work.Page{Top: resultsPage}); err == nil; {
			var list work.List[work.Result]
			if list, err = batches.Results(ctx, id, page); err != nil {
				break
			}
			for _, item := range list.Items {
				if !yield(program.RawResult{ID: item.ID, State: stateOf(item.Outcome), Value: item.Result, Error: item.Error}, nil) {
					return
				}
			}
			if page.Continuation = list.Continuation; page.Continuation == "" {
				return
			}
		}
		yield(program.RawResult{}, err)
	}
}

func stateOf(o work.Outcome) attempt.Outcome {
	switch o {
	case work.ItemDone:
		return attempt.Done
	case work.ItemRejected:
		return attempt.Rejected
	}
	return attempt.Failed
}

// errNoBus reports that there is no namespace to send to.
var errNoBus = errors.New("the setting ServiceBus names no namespace")

// SendToBus sends a message to a queue or topic of Service Bus.
func (r *Running) SendToBus(ctx context.Context, entity string, m program.BusMessage) (program.BusReceipt, error) {
	if r.jobs.bus == nil {
		return program.BusReceipt{}, errNoBus
	}
	out := &relay.Message{Body: relay.Body{Data: [][]byte{m.Body}}, Properties: &relay.Properties{}, ApplicationProperties: m.Properties}
	text := func(value string) *string {
		if value == "" {
			return nil
		}
		return &value
	}
	out.Properties.ContentType, out.Properties.Subject, out.Properties.GroupID = text(m.ContentType), text(m.Subject), text(m.SessionID)
	if m.ID != "" {
		out.Properties.MessageID = m.ID
	}
	if m.CorrelationID != "" {
		out.Properties.CorrelationID = m.CorrelationID
	}
	if m.TimeToLive > 0 {
		out.Header = &relay.Header{TTL: m.TimeToLive}
	}
	receipt, err := r.jobs.bus.Send(ctx, entity, out)
	id, _ := receipt.MessageID.(string)
	return program.BusReceipt{ID: id, Backlog: receipt.Backlog}, err
}
