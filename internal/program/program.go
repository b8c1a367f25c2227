// Package program is what a program consists of: what its author declared,
// whether that can be, and its description, from which functions, settings and
// infrastructure are written. It opens nothing and reads no setting.
package program

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"kennel/internal/attempt"
)

// Declared is what an author declared. The order is that of the declarations.
type Declared struct {
	Name       string
	Queues     []*Queue
	Timers     []*Timer
	Routes     []*Route
	Processors []*Processor
	Settings   []*Setting
	Uses       map[Part]bool // the built-in parts that it uses
	Everything bool          // all of them, with the processors of the Kennel app

	Starts   []func(ctx context.Context) (stop func(ctx context.Context) error, err error)
	UseWork  []func(attempt.Work) attempt.Work // around every attempt, the first one outermost
	UseHTTP  []func(http.Handler) http.Handler // around every route of the program, the first one outermost
	Mistakes []error                           // of declarations that could not even be recorded
}

// Part is a built-in part of a program, which is there because it is used.
type Part string

// The parts. Those of status, health and doctor are in every program.
const (
	Numbers  Part = "numbers"
	Gates    Part = "gates"
	Batches  Part = "batches"
	Channels Part = "channels"
	Messages Part = "messages" // sent to Service Bus through outages
	Scale    Part = "scale"
	Bill     Part = "bill"
)

// Parts returns all parts.
func Parts() []Part { return []Part{Numbers, Gates, Batches, Channels, Messages, Scale, Bill} }

// UseAll uses all built-in parts.
func (d *Declared) UseAll() {
	d.Everything, d.Uses = true, make(map[Part]bool)
	for _, p := range Parts() {
		d.Uses[p] = true
	}
}

// Queue is a declared queue: what it is, and how it is worked on.
type Queue struct {
	Name         string
	StorageQueue string                  // default: Name
	FormerNames  []string                // storage queues that are still drained
	SendOnly     bool                    // another program works on it
	Private      bool                    // its bodies are shown nowhere
	Check        func(body []byte) error // whether the declared type takes a body; its error is for the sender
	Raw          bool                    // bodies are bytes, not JSON
	Mistake      error                   // of its type

	Handled     int // calls of Handle: 0 or 1, or it is a mistake
	Work        func(ctx context.Context, body []byte) error
	Dead        func(ctx context.Context, body []byte, d Dead) error // nil: none
	Concurrency int                                                  // attempts at a time in a process
	MaxAttempts int
	Retry       func(failed int, err error) time.Duration
	Timeout     time.Duration
}

// Storage returns the name of the storage queue.
func (q *Queue) Storage() string {
	if q.StorageQueue != "" {
		return q.StorageQueue
	}
	return q.Name
}

// Dead says why a message becomes a dead letter.
type Dead struct {
	Reason   string
	Attempts int
}

// Defaults of a queue's work.
const (
	Concurrency = 32
	MaxAttempts = 20
	Timeout     = 5 * time.Minute
)

// Timer is a declared timer.
type Timer struct {
	Name        string
	Schedule    string
	Zone        string // IANA; default UTC
	CatchUp     bool   // after a pause, the slots that were missed are done too
	Timeout     time.Duration
	MaxAttempts int
	Retry       func(failed int, err error) time.Duration
	Work        attempt.Work
}

// TimerAttempts is the default of the attempts of a slot.
const TimerAttempts = 5

// Level is who may call a route.
type Level int

// The levels.
const (
	LevelFunction  Level = iota // a key of the function
	LevelAnonymous              // anyone
	LevelAdmin                  // the master key
)

// String implements [fmt.Stringer], as function.json has it.
func (l Level) String() string {
	switch l {
	case LevelFunction:
		return "function"
	case LevelAnonymous:
		return "anonymous"
	case LevelAdmin:
		return "admin"
	}
	return "unknown"
}

// Route is a declared route.
type Route struct {
	Pattern string // of http.ServeMux, with a method, below /api
	Level   Level
	Handler http.Handler
}

// IsEnveloped reports whether calls of the route come in envelopes of its function,
// so that no other function leads to it, nor it to others: its level is not that
// of the other functions.
func (r *Route) IsEnveloped() bool { return r.Level != LevelFunction }

// Processor is what a batch does with each item.
type Processor struct {
	Name    string
	Check   func(item []byte) error // whether the declared type takes an item; its error is for the submitter
	Work    func(ctx context.Context, item []byte) (result []byte, err error)
	Parcel  int           // items of a parcel of a large batch; 0: the default
	Timeout time.Duration // of an attempt of an item; 0: that of its message

	Concurrency int // items at the same time in a process; 0: the default for each parcel
	MaxAttempts int // of an item; 0: the default
	Retry       func(failed int, err error) time.Duration

	Mistakes []error // of its options and types

	OnEnd func(ctx context.Context, b Batch) error // after a batch has ended; nil: nothing
	Told  int                                      // how often OnEnd was declared
}

// Setting is a declared environment variable.
type Setting struct {
	Name        string
	Default     string
	Description string
	Secret      bool
	Optional    bool
	Check       func(string) error
}

// Refusal returns what is wrong with a value, or nil. A Check that panics, as on a
// value that it did not expect, refuses it.
func (s *Setting) Refusal(value string) (err error) {
	if s.Check == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("its Check panics: %v", v)
		}
	}()
	return s.Check(value)
}

// unreadable reports a body that cannot be read into the declared type.
type unreadable struct{ error }

// Unreadable returns the error of a body that this build cannot read. It is put
// back while processes of another build are seen, and then is a dead letter.
func Unreadable(err error) error { return unreadable{err} }

func (u unreadable) Unwrap() error { return u.error }

// IsUnreadable reports whether an error is one of [Unreadable].
func IsUnreadable(err error) bool {
	_, ok := errors.AsType[unreadable](err)
	return ok
}

// The errors of a program's own code, besides those of the jobs.
var (
	ErrNotRunning = errors.New("the program is not running: it begins with OnStart")
	ErrInvalid    = errors.New("the message is not valid")
)

// ItemError reports an item of a batch that cannot be submitted. Nothing of the
// batch was stored.
type ItemError struct {
	Place int // from 1
	Err   error
}

// Error implements error.
func (e *ItemError) Error() string { return fmt.Sprintf("item %d: %v", e.Place, e.Err) }

func (e *ItemError) Unwrap() error { return e.Err }
