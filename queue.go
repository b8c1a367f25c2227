package kennel

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"time"

	"kennel/internal/program"
)

// Queue is a queue of messages of type T. It is declared by [NewQueue], used by
// senders and by the handler.
type Queue[T any] struct {
	app      *App
	declared *program.Queue
	codec    codec[T]
}

// QueueOptions are what a queue is; nil and zero fields mean the defaults.
type QueueOptions[T any] struct {
	Validate     func(T) error // sees what is sent, by code and by API; its error is for the sender
	Private      bool          // bodies are shown nowhere, only their size and hash
	SendOnly     bool          // another program works on it
	StorageQueue string        // default: its own, with its name. Queues that share one scale, poll and cost together
	FormerNames  []string      // storage queues from which messages are still handled
}

// NewQueue declares a queue. Its name has 3 to 35 lower-case letters, digits
// and single hyphens, first a letter, and none of the prefixes and suffixes of
// built-in parts. T is what encoding/json writes and reads; []byte and
// json.RawMessage are sent as they are. Unknown members are ignored and missing
// ones are zero, so that a type can change over time.
//
// It needs a handler, or SendOnly.
func NewQueue[T any](a *App, name string, options *QueueOptions[T]) *Queue[T] {
	var opt QueueOptions[T]
	if options != nil {
		opt = *options
	}
	q := &Queue[T]{app: a, codec: codec[T]{validate: opt.Validate}}
	q.declared = &program.Queue{
		Name: name, StorageQueue: opt.StorageQueue, FormerNames: opt.FormerNames, SendOnly: opt.SendOnly, Private: opt.Private,
		Check: q.codec.check, Raw: q.codec.raw(), Mistake: carries(reflect.TypeFor[T]()),
		Concurrency: program.Concurrency, MaxAttempts: program.MaxAttempts, Timeout: program.Timeout,
	}
	a.declaring("queue %q is declared", name)
	a.declared.Queues = append(a.declared.Queues, q.declared)
	return q
}

// HandleOptions are how a queue is worked on; nil and zero fields mean the
// defaults.
type HandleOptions[T any] struct {
	Concurrency int           // attempts at a time in a process, also under the Functions host; up to 10,000, default 32
	MaxAttempts int           // then a message becomes a dead letter; up to 10,000, default 20
	Timeout     time.Duration // of an attempt; up to 7 days, default 5 minutes

	// Retry returns the wait after a number of failed attempts, of which the
	// last one returned err, up to 7 days; ≤ 0: at once. Default, also if it
	// panics: from 2 s, doubling to 4 h, of which it takes between a half and all: a
	// message is tried for 14 to 28 hours.
	Retry func(failed int, err error) time.Duration

	// Dead is called before a message becomes a dead letter, at least once, also
	// if the last attempt killed its process. It has attempts of its own.
	Dead func(ctx context.Context, m T, d Dead) error
}

// Dead says why a message becomes a dead letter.
type Dead struct {
	Reason   string
	Attempts int // that the message had
}

// Handle declares the handler of the queue. Its context ends after the timeout,
// after a lost lease, and some time after the process began to stop.
func (q *Queue[T]) Handle(handle func(context.Context, T) error, options *HandleOptions[T]) {
	q.app.declaring("queue %q: Handle is called", q.declared.Name)
	d := q.declared
	d.Handled++
	if handle == nil {
		return // Check reports it
	}
	d.Work = func(ctx context.Context, body []byte) error {
		m, err := q.codec.decode(body)
		if err != nil {
			return err
		}
		return handle(ctx, m)
	}
	if options == nil {
		return
	}
	d.Concurrency, d.MaxAttempts, d.Timeout = or(options.Concurrency, d.Concurrency), or(options.MaxAttempts, d.MaxAttempts), or(options.Timeout, d.Timeout)
	d.Retry = options.Retry
	if options.Dead != nil {
		d.Dead = func(ctx context.Context, body []byte, dead program.Dead) error {
			m, err := q.codec.decode(body)
			if err != nil {
				return nil // what cannot be read has no last word
			}
			return options.Dead(ctx, m, Dead(dead))
		}
	}
}

// or returns value, or the default if it is zero.
func or[V comparable](value, byDefault V) V {
	var zero V
	if value == zero {
		return byDefault
	}
	return value
}

// SendOptions are the options of one message; nil and zero fields mean the
// defaults.
type SendOptions struct {
	Delay time.Duration // not received before; less than 7 days
}

// Message is a message for [Queue.SendAll].
type Message[T any] struct {
	Body T
	SendOptions
}

// Sent is a message that storage has confirmed.
type Sent struct {
	ID string // the same in all its attempts, and of its dead letter; "": not confirmed
}

// ErrNotRunning reports a call before the program began, as in its declarations.
var ErrNotRunning = program.ErrNotRunning

// ErrInvalid reports a message that its queue does not take, and that was not sent.
var ErrInvalid = program.ErrInvalid

// Send sends a message, and returns when storage has confirmed it. After an
// error that is not [ErrInvalid] the message may have been sent.
func (q *Queue[T]) Send(ctx context.Context, body T, options *SendOptions) (Sent, error) {
	var opt SendOptions
	if options != nil {
		opt = *options
	}
	running := q.app.running.Load()
	if running == nil {
		return Sent{}, fmt.Errorf("send to queue %q: %w", q.declared.Name, ErrNotRunning)
	}
	text, err := q.codec.encode(body)
	if err != nil {
		return Sent{}, fmt.Errorf("send to queue %q: %w", q.declared.Name, err)
	}
	id, err := running.Send(ctx, q.declared.Name, text, opt.Delay)
	if err != nil {
		return Sent{}, fmt.Errorf("send to queue %q: %w", q.declared.Name, err)
	}
	return Sent{ID: id}, nil
}

// sending is how many messages SendAll sends at the same time.
const sending = 16

// SendAll sends messages, several at the same time. sent[i] belongs to the i-th
// message, also with an error: those without an ID are not confirmed. It stops
// taking messages after the first error.
func (q *Queue[T]) SendAll(ctx context.Context, messages iter.Seq[Message[T]]) (sent []Sent, err error) {
	atOnce := sending
	if running := q.app.running.Load(); running != nil && running.InOrder {
		atOnce = 1
	}
	return sendAll(messages, atOnce, func(m Message[T]) (Sent, error) { return q.Send(ctx, m.Body, &m.SendOptions) })
}

// codec writes and reads the bodies of messages.
type codec[T any] struct{ validate func(T) error }

// raw reports whether bodies are sent as they are.
func (codec[T]) raw() bool {
	var zero T
	switch any(zero).(type) {
	case []byte, json.RawMessage:
		return true
	}
	return false
}

func (c codec[T]) encode(m T) (body []byte, err error) {
	if c.validate != nil {
		if err := c.validate(m); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	switch raw := any(m).(type) {
	case []byte:
		return raw, nil
	case json.RawMessage:
		return raw, nil
	}
	if body, err = json.Marshal(m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return body, nil
}

func (c codec[T]) decode(body []byte) (m T, err error) {
	switch raw := any(&m).(type) {
	case *[]byte:
		*raw = body
		return m, nil
	case *json.RawMessage:
		*raw = body
		return m, nil
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return m, program.Unreadable(err)
	}
	return m, nil
}

// check returns why a body cannot be sent.
func (c codec[T]) check(body []byte) error {
	m, err := c.decode(body)
	if err == nil && c.validate != nil {
		err = c.validate(m)
	}
	return err
}

// carries returns why JSON cannot carry values of a type.
func carries(t reflect.Type) error {
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("JSON cannot carry %v", t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("JSON cannot be read into the interface %v", t)
		}
	case reflect.Map:
		if key := t.Key(); !isText(key) && key.Kind() != reflect.String && (key.Kind() < reflect.Int || key.Kind() > reflect.Uintptr) {
			return fmt.Errorf("JSON cannot carry %v: its keys are no texts", t)
		}
		return carriesElements(t)
	case reflect.Slice, reflect.Array, reflect.Pointer:
		return carriesElements(t)
	case reflect.Struct:
		return carriesFields(t)
	}
	return nil
}
