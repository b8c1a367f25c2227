package kennel

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/program"
)

// Processor is what batches of items of type T do with each of them; the result
// of an item has type R.
type Processor[T, R any] struct {
	app      *App
	name     string
	codec    codec[T]
	declared *program.Processor
}

// ProcessorOptions are the options of a processor; nil and zero fields mean the
// defaults.
type ProcessorOptions[T any] struct {
	Validate func(T) error // sees each item when its batch is submitted; its error is for the submitter
	Timeout  time.Duration // of an attempt of an item; default 30 s, and not more

	Concurrency int // items at a time in a process; default 8 for each message that it works on
	MaxAttempts int // then an item has failed; default 5, up to 50

	// Retry returns the wait after a number of failed attempts, up to a day, and err
	// is what the last one returned; ≤ 0: at once. Default, also if it panics: 10 s,
	// doubling up to 4 hours, × 0.5 to 1, the same for items of a message that failed
	// as often.
	Retry func(failed int, err error) time.Duration

	// Parcel is how many items a message of a large batch has, up to 400; default
	// 100. Large parcels cost less, and a process that is killed repeats more.
	Parcel int
}

// The limits of [ProcessorOptions].
const (
	maxParcel   = 400
	maxItemTime = 30 * time.Second
	maxAttempts = 50
)

// NewProcessor declares a processor, whose name has the form of those of
// [NewQueue]: 3 to 35 lower-case letters, digits and single hyphens, first a
// letter. It calls process for each item of its batches, up to MaxAttempts times if
// it fails, and the results become a report. T is read from a JSON object with
// a text "id" that is unique in its batch, and R is written as JSON of up to 2 KiB:
// put a longer result into a store of yours.
//
// What process returns means the same as in the handler of a queue: see [Reject],
// [RetryAfter] and [Snooze]; both can wait for up to a day. Items are stored and tried
// in messages of up to Parcel items: to save requests, an item waits up to an
// eighth longer for others of its message, and what remains of a message after
// 250 tries has failed.
func NewProcessor[T, R any](a *App, name string, process func(context.Context, T) (R, error), options *ProcessorOptions[T]) *Processor[T, R] {
	var opt ProcessorOptions[T]
	if options != nil {
		opt = *options
	}
	p := &Processor[T, R]{app: a, name: name, codec: codec[T]{validate: opt.Validate}}
	declared := &program.Processor{
		Name: name, Check: p.codec.check, Parcel: opt.Parcel, Timeout: or(opt.Timeout, maxItemTime),
		Concurrency: opt.Concurrency, MaxAttempts: opt.MaxAttempts, Retry: opt.Retry,
	}
	declared.Mistakes = processorMistakes[T, R](process == nil, p.codec.raw(), opt)
	p.declared = declared
	declared.Work = func(ctx context.Context, item []byte) ([]byte, error) {
		m, err := p.codec.decode(item)
		if err != nil {
			return nil, Reject(err)
		}
		result, err := process(ctx, m)
		if err != nil {
			return nil, err
		}
		return json.Marshal(result)
	}
	a.declaring("processor %q is declared", name)
	a.declared.Processors = append(a.declared.Processors, declared)
	a.declared.Use(program.Batches)
	return p
}

// processorMistakes returns what is wrong with a processor.
func processorMistakes[T, R any](isNil, isRaw bool, opt ProcessorOptions[T]) (all []error) {
	bad := func(is bool, format string, values ...any) {
		if is {
			all = append(all, fmt.Errorf(format, values...))
		}
	}
	item := reflect.TypeFor[T]()
	isObject := item.Kind() == reflect.Struct || item.Kind() == reflect.Map || isRaw
	bad(isNil, "its function is nil")
	bad(!isObject, "an item is a JSON object, which %v is not: use a struct", item)
	bad(opt.Parcel < 0 || opt.Parcel > maxParcel, "ProcessorOptions.Parcel is %d: use up to %d", opt.Parcel, maxParcel)
	bad(opt.Concurrency < 0 || opt.Concurrency > program.MostAtOnce, "ProcessorOptions.Concurrency is %d: use up to %d", opt.Concurrency, program.MostAtOnce)
	bad(opt.MaxAttempts < 0 || opt.MaxAttempts > maxAttempts, "ProcessorOptions.MaxAttempts is %d: use up to %d", opt.MaxAttempts, maxAttempts)
	bad(opt.Timeout < 0 || opt.Timeout > maxItemTime, "ProcessorOptions.Timeout is %v: use up to %v", opt.Timeout, maxItemTime)
	if err := carries(item); err != nil && isObject {
		bad(true, "its items: %w", err)
	}
	if err := checkID(item); err != nil {
		bad(true, "%w", err)
	}
	if err := carries(reflect.TypeFor[R]()); err != nil {
		bad(true, "its result: %w", err)
	}
	return all
}

// OnEnd has ended called after a batch of the processor has ended, with its counts,
// in any process of the program: at least once, also if a process is killed, and
// not before the results can be read. Its context ends as that of an item does.
//
// After an error or a panic it is called again, after pauses that grow from a few
// minutes to four hours, until it returns nil or [Reject], or until the batch is
// removed after its retention; [RetryAfter] and [Snooze] are errors like others.
// From the third failure on that is a problem in the status. A stop is no
// failure. Calls for one batch can overlap: the ID of the batch is the key for
// what must happen once.
func (p *Processor[T, R]) OnEnd(ended func(ctx context.Context, b Batch) error) {
	p.app.declaring("processor %q: OnEnd is called", p.name)
	if ended != nil {
		p.declared.OnEnd = func(ctx context.Context, b program.Batch) error { return ended(ctx, Batch(b)) }
	}
	p.declared.Told++
}

// BatchOptions are the options of a batch; nil and zero fields mean the defaults.
type BatchOptions struct {
	Name string // for people
	Key  string // the same key and items are the same batch for 24 hours
}

// Submit submits a batch, and returns when all its items are stored. An item
// whose JSON has no "id", in any case, gets its place as one, from 1. If an item is not valid,
// nothing is stored. items runs in another goroutine, which can outlive Submit
// after an error.
func (p *Processor[T, R]) Submit(ctx context.Context, items iter.Seq[T], options *BatchOptions) (Batch, error) {
	var opt BatchOptions
	if options != nil {
		opt = *options
	}
	running := p.app.running.Load()
	if running == nil {
		return Batch{}, fmt.Errorf("submit a batch to %q: %w", p.name, ErrNotRunning)
	}
	reader, writer := io.Pipe()
	defer reader.Close() // ends the goroutine after an error

	// The sequence can wait for something.
	defer context.AfterFunc(ctx, func() { writer.CloseWithError(context.Cause(ctx)) })()
	go attempt.Run(func() error { return p.write(writer, items) }, func(err error) { writer.CloseWithError(err) })
	batch, err := running.SubmitBatch(ctx, p.name, opt.Name, opt.Key, reader)
	if err != nil {
		return Batch{}, fmt.Errorf("submit a batch to %q: %w", p.name, err)
	}
	return Batch(batch), nil
}

// write writes items as lines.
func (p *Processor[T, R]) write(w io.Writer, items iter.Seq[T]) error {
	n := 0
	for item := range items {
		n++
		line, err := p.codec.encode(item)
		if err == nil {
			line, err = withID(line, n)
		}
		if err != nil {
			return &program.ItemError{Place: n, Err: err}
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// withID returns an item with an id.
func withID(item []byte, n int) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(item, &members); err != nil || members == nil {
		return nil, fmt.Errorf("%w: it is no JSON object", ErrInvalid)
	}
	if _, found := members["id"]; !found {
		id := json.RawMessage(strconv.Quote(strconv.Itoa(n)))
		for name, value := range members {
			if strings.EqualFold(name, "id") { // a field ID without a tag
				id = value
				delete(members, name)
			}
		}
		members["id"] = id
	}
	return json.Marshal(members) // compact, in one line
}

// Batch is a batch of items.
type Batch struct {
	ID        string
	Name      string // for people
	Processor string
	State     string // submitting, running, held, gathering, done or failed
	Error     string // why it has failed

	Items, Done, Rejected, Failed int

	SubmittedAt, FinishedAt time.Time // FinishedAt is zero until then
}

// Ended reports whether every item has a result, and the report is made or
// cannot be.
func (b Batch) Ended() bool { return program.Batch(b).Ended() }

// Batch returns a batch of this program.
func (p *Processor[T, R]) Batch(ctx context.Context, id string) (Batch, error) {
	running := p.app.running.Load()
	if running == nil {
		return Batch{}, fmt.Errorf("read batch %q: %w", id, ErrNotRunning)
	}
	batch, err := running.Batch(ctx, id)
	return Batch(batch), err
}

// Result is how one item of a batch ended.
type Result[R any] struct {
	ID    string
	State Outcome // Done, Rejected or Failed
	Value R       // if it is done
	Error string  // if it is not
}

// Results returns the results of a batch so far, in the order of its items,
// except that those of items that were tried again follow the others of their
// parcel. It ends with the first error.
func (p *Processor[T, R]) Results(ctx context.Context, id string) iter.Seq2[Result[R], error] {
	return func(yield func(Result[R], error) bool) {
		running := p.app.running.Load()
		if running == nil {
			yield(Result[R]{}, fmt.Errorf("read the results of batch %q: %w", id, ErrNotRunning))
			return
		}
		for raw, err := range running.Results(ctx, id) {
			result := Result[R]{ID: raw.ID, State: Outcome(raw.State), Error: raw.Error}
			if err == nil && result.State == Done {
				err = json.Unmarshal(raw.Value, &result.Value)
			}
			if err != nil {
				yield(Result[R]{}, fmt.Errorf("read the results of batch %q: %w", id, err))
				return
			}
			if !yield(result, nil) {
				return
			}
		}
	}
}
