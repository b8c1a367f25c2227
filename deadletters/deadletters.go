// Package deadletters lists, redrives and deletes dead letters: the messages
// that could not be worked on and were moved to the queue with the suffix
// -poison. It reads those of every writer: of package queue, and of the
// Functions host, which moves the message as it is.
//
// # Contract
//
// A redrive puts a message back into the queue that it came from, and deletes
// the dead letter only when storage has confirmed the put. So no message is
// lost, whatever fails or is killed at any time. A message may exist twice
// after that: in its queue, among the dead letters, or in both. Such copies have
// the same identity, which their work recognizes, so that a second redrive is
// harmless. They are listed as one letter, under one ID. A message that has no
// identity in its body, such as a text that the host has moved, is delivered at
// least once.
//
// A call receives messages with a lease. At its end it makes those visible again
// that it did not move or delete. If it is killed, or there are more than some
// hundred of them, they are visible again when the lease ends, [MaxHidden] after
// the call began at the latest. Until then neither a list nor another call finds
// them.
//
// A redriven message whose work fails again becomes a dead letter again. A run,
// which is a call with the calls that continue it, takes only letters that were
// in the queue when it began, so it moves each of them once and ends.
//
// A call does not count on the order of the queue, and ends within [MaxCall].
// Several calls may work on one queue at the same time.
//
// Claims, which hold the bodies that are too long for a message, are never
// removed: another copy of the message may need them. They are removed when they
// expire.
package deadletters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"kennel/queue"
)

// Store is the queues of an account.
type Store interface {
	queue.Store
	queue.Peeker
	queue.Lister
}

// Options are the optional parts of [Letters]; nil fields mean the defaults.
type Options struct {
	// Claims returns where the long bodies of the messages of a queue are
	// stored. The result nil means that it is unknown; then letters with such
	// bodies are listed without them, and are not redriven. Default: nil for
	// every queue.
	Claims func(source string) (*queue.Claims, error)

	// Text returns the body of a message of a queue as people read it. Default:
	// the body.
	Text func(source string, body []byte) []byte

	// Private reports whether the bodies of messages are shown nowhere, besides those
	// whose envelope says so. name is that of the queue in the envelope, "" if it has
	// none. Default: the others are shown.
	Private func(source, name string) bool

	// Announce signals that messages were put into a queue. It is called for
	// each one and does not block. Default: nothing; listeners poll.
	Announce func(source string)

	Log *slog.Logger // default: discard
}

// Letters are the dead letters of an account. It is safe for concurrent use.
type Letters struct {
	store     Store
	opt       Options
	extending chan struct{} // a slot for the claim that is copied: it may be long
}

// Limits of a call.
const (
	MaxLimit  = 1000 // letters, and IDs of a Selection
	MinRate   = 0.1  // letters a second, if there is a limit
	MaxCall   = 60 * time.Second
	MaxHidden = 75 * time.Second
)

// The errors of calls. They need a correction by the caller; any other error is
// one of storage.
var (
	ErrQueue     = errors.New("not the name of a dead-letter queue")
	ErrSelection = errors.New("invalid selection of dead letters")

	// ErrNoSource reports that the queue from which the letters came does not
	// exist. Nothing was moved.
	ErrNoSource = errors.New("the queue of the dead letters does not exist")
)

// Queue is a queue of dead letters.
type Queue struct {
	Queue    string `json:"queue"`
	Source   string `json:"source"`   // the queue from which the letters came
	Messages int64  `json:"messages"` // about; copies count
}

// Letter is a dead letter.
type Letter struct {
	ID         string    `json:"id"` // the same for all copies
	Reason     string    `json:"reason"`
	Attempts   *int64    `json:"attempts"` // nil: unknown
	MovedBy    Mover     `json:"movedBy"`
	InsertedAt time.Time `json:"insertedAt"`
	ExpiresAt  time.Time `json:"expiresAt"`

	// Body is the body of the message that failed, or its beginning.
	Body     string   `json:"body"`
	Encoding Encoding `json:"encoding"`         // of Body
	Size     int      `json:"size"`             // of the whole body in bytes
	Cut      bool     `json:"cut,omitempty"`    // Body is not the whole body
	SHA256   string   `json:"sha256,omitempty"` // of the whole body, in hex, where Body is private

	// Problem states why Body is empty although Size is not 0; "" if it is not.
	Problem string `json:"problem,omitempty"`

	TraceParent string `json:"traceparent,omitempty"` // W3C trace context of the message
}

// Mover is who moved a message to the dead letters.
type Mover string

// The movers. ByHost stands for the Functions host and any program that moves a
// message as it is.
const (
	ByKennel Mover = "kennel"
	ByHost   Mover = "host"
)

// Encoding is how a body is represented as text.
type Encoding string

// The encodings.
const (
	AsText   Encoding = "text"
	AsBase64 Encoding = "base64" // a body that is not UTF-8
)

// List is the front of a queue of dead letters.
type List struct {
	Items []Letter `json:"items"`          // never nil
	More  bool     `json:"more,omitempty"` // there are others
}

// Selection selects letters. Exactly one of All and IDs is set.
type Selection struct {
	All bool
	IDs []string // up to MaxLimit

	Limit     int       // maximum letters of the call, without those that stay; 0: MaxLimit
	PerSecond float64   // maximum letters a second, at least MinRate; 0: no limit
	DryRun    bool      // only count the letters that match, at the front of the queue
	Before    time.Time // Result.Before of an earlier call, to continue its run; zero: begin a run
}

// Result is the result of a call.
type Result struct {
	Matched int  `json:"matched"` // letters of the selection; copies count once
	More    bool `json:"more"`    // a further call may find others

	// Before is passed to the next call of the run. It is zero if the call met
	// no letter.
	Before time.Time `json:"before,omitzero"`

	// Left are letters that matched and stay where they are, up to MaxLeft of
	// them.
	Left []Left `json:"left,omitempty"`
}

// MaxLeft is how many letters a Result lists that could not be moved or
// deleted.
const MaxLeft = 20

// Left is a letter that was not moved or deleted.
type Left struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// Redriven is the result of Redrive.
type Redriven struct {
	Result
	Moved int `json:"moved"`
}

// Deleted is the result of Delete.
type Deleted struct {
	Result
	Deleted int `json:"deleted"`
}

// New returns the dead letters of an account. It makes no request.
func New(store Store, options *Options) (*Letters, error) {
	if store == nil {
		return nil, errors.New("new dead letters: the store is nil")
	}
	return &Letters{store: store, opt: options.withDefaults(), extending: make(chan struct{}, 1)}, nil
}

func (o *Options) withDefaults() Options {
	var opt Options
	if o != nil {
		opt = *o
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	if opt.Claims == nil {
		opt.Claims = func(string) (*queue.Claims, error) { return nil, nil }
	}
	if opt.Private == nil {
		opt.Private = func(string, string) bool { return false }
	}
	if opt.Text == nil {
		opt.Text = func(_ string, body []byte) []byte { return body }
	}
	if opt.Announce == nil {
		opt.Announce = func(string) {}
	}
	return opt
}

// parallelReads is how many queues are counted, or bodies read, at the same time.
const parallelReads = 4

// Queues returns the queues that have dead letters, in the order of their
// names. It makes a request for each queue with the suffix.
func (l *Letters) Queues(ctx context.Context) ([]Queue, error) {
	names, err := answer(ctx, func(ctx context.Context) ([]string, error) { return l.store.List(ctx, "") })
	if err != nil {
		return nil, fmt.Errorf("list the queues of dead letters: %w", err)
	}
	var queues []Queue
	for _, name := range names {
		if source, err := Source(name); err == nil {
			queues = append(queues, Queue{Queue: name, Source: source})
		}
	}
	counting, ctx := errgroup.WithContext(ctx)
	counting.SetLimit(parallelReads)
	for i := range queues {
		counting.Go(func() (err error) {
			queues[i].Messages, err = l.count(ctx, queues[i].Queue)
			return err
		})
	}
	if err := counting.Wait(); err != nil {
		return nil, fmt.Errorf("list the queues of dead letters: %w", err)
	}
	return slices.DeleteFunc(queues, func(q Queue) bool { return q.Messages == 0 }), nil
}

// Source returns the name of the queue that has its dead letters in this one.
// Its error is ErrQueue.
func Source(name string) (source string, err error) {
	source, found := strings.CutSuffix(name, queue.PoisonSuffix)
	if !found || queue.CheckName(name) != nil || queue.CheckName(source) != nil {
		return "", fmt.Errorf("queue name %.80q: %w: use the name of a queue with the suffix %s", name, ErrQueue, queue.PoisonSuffix)
	}
	return source, nil
}

func (l *Letters) peek(ctx context.Context, name string) ([]queue.Message, error) {
	return answer(ctx, func(ctx context.Context) ([]queue.Message, error) {
		return l.store.Peek(ctx, name, queue.MaxReceive)
	})
}

func (l *Letters) count(ctx context.Context, name string) (int64, error) {
	return answer(ctx, func(ctx context.Context) (int64, error) { return l.store.Count(ctx, name) })
}
