// Package queue defines message queues in storage: the contract that stores
// implement, the limits of Azure's queues, a publisher that puts messages and a
// listener that works on them.
//
// # Contract
//
// A message is delivered at least once, in no particular order, and expires
// after seven days. Its receiver has a lease: until the lease ends, no other
// receiver gets the message. A receiver deletes the message when it is done. If
// it needs more time, it renews the lease with Update, which can also change
// the body. If it dies, the message is received again when the lease ends.
// Update and Delete require the newest receipt, and Update returns a new one,
// so one goroutine should own the receipt of a message.
//
// A store sends each request once. After an error, a request may have been
// applied. Messages may therefore exist twice, the new receipt of a renewed
// lease may be lost, and ErrLeaseLost may be caused by the caller's own first
// try.
//
// # Publishing
//
// A [Publisher] repeats a put that fails, so a message may exist more than once.
// Its body therefore carries an identity. After the put, the publisher signals
// that there is work, without reading the length of the queue: at most once per
// queue and second, and later while a listener announces that it is awake. A
// signal is delayed but not dropped, so the last message of a burst is signalled
// as well. Only a process that is killed between the put and the signal leaves
// a message to the listeners' rare polls.
//
// # Listening
//
// A [Listener] passes the messages of any number of queues to a handler, at
// least once each. It renews the leases meanwhile, and ends the handler's ctx
// when a lease is lost. It receives up to 32 messages at a time, as many as can
// be worked on within a part of their lease; none waits for longer than half of
// it. A failed attempt is repeated after a wait that grows; a message that fails
// too often, or cannot be read, becomes a dead letter, whole, with the reason.
// An attempt that failed because of storage does not count ([ErrNoAttempt]).
//
// An empty queue is polled less and less often. While signals are received and
// the count of a queue, which includes messages that other workers hold, is 0,
// it is not polled, except every ten minutes or so. So what a killed worker held
// is received again when its lease has ended, after one poll.
//
// A queue that the option Admit does not admit is left alone: no request is
// made for it until it is admitted again, and then it is polled at once.
//
// # Stores
//
// Package azurestore has the queues of a storage account as a [Store], and [Claims]
// in a table and a container, for programs that use this package without the app;
// examples/queuealone is one.
//
// # Limits
//
// [CheckPut], [CheckReceive], [CheckPeek] and [CheckUpdate] reject requests that Azure would
// reject. Stores call them before they send a request, so a program that works
// with an emulator or in memory works in Azure too.
package queue

import (
	"context"
	"errors"
	"time"

	"kennel/internal/cas"
)

// Message is a message that was received, put or peeked at.
type Message struct {
	ID                             string
	Receipt                        string // proves the lease; each Update returns a new one
	Body                           string // as stored; sender and receiver agree on its encoding
	DequeueCount                   int64  // how often it was received, including this time if it is
	Inserted, Expires, NextVisible time.Time
}

// Receiver receives messages from queues. All methods are called concurrently.
// Durations are rounded up to whole seconds.
type Receiver interface {
	// Receive returns up to max messages. No other receiver gets them for the
	// duration visibility. A queue that does not exist is empty. If the answer
	// is lost, its messages stay invisible for that duration.
	Receive(ctx context.Context, queue string, max int, visibility time.Duration) ([]Message, error)

	// Update stores m.Body and makes the message visible again after the
	// duration visibility, or at once if it is 0. It returns the message with
	// its new receipt; the old one is invalid. ErrLeaseLost reports that the
	// caller's lease ended.
	Update(ctx context.Context, queue string, m Message, visibility time.Duration) (Message, error)

	// Delete deletes a message. ErrLeaseLost reports that the caller's lease
	// ended.
	Delete(ctx context.Context, queue string, m Message) error
}

// Putter puts messages into queues. Put is called concurrently.
type Putter interface {
	// Put adds a message that is not received before delay, rounded up to
	// whole seconds. It creates a missing queue. The caller can update and
	// delete the returned message until a receiver gets it. After an error
	// other than ErrRefused or ErrLimit the message may exist.
	Put(ctx context.Context, queue, body string, delay time.Duration) (Message, error)
}

// Counter estimates the length of queues. Count is called concurrently.
type Counter interface {
	// Count returns the approximate number of messages of a queue, including
	// invisible ones. It is 0 for a queue that does not exist.
	Count(ctx context.Context, queue string) (int64, error)
}

// Peeker shows messages without a lease. Peek is called concurrently.
type Peeker interface {
	// Peek returns up to max of the messages that may be received now. It
	// changes nothing: a receiver may get them at any time. They have no
	// Receipt and no NextVisible, and their DequeueCount is how often they were
	// received so far. A queue that does not exist is empty.
	Peek(ctx context.Context, queue string, max int) ([]Message, error)
}

// Lister lists queues. List is called concurrently.
type Lister interface {
	// List returns the names of the existing queues that begin with prefix, in
	// their order. A queue that was just created or deleted may be missing or
	// listed.
	List(ctx context.Context, prefix string) ([]string, error)
}

// The errors of the interfaces above.
//
// ErrLeaseLost reports that the lease ended and another receiver has the
// message, or that the message was deleted, perhaps by an earlier try of the
// same request. ErrRefused reports a condition that a retry does not change: a
// missing permission or a disabled account. After either error, this request
// changed nothing.
var (
	ErrLeaseLost = errors.New("the lease of the message was lost")
	ErrLimit     = errors.New("beyond the limits of a queue")
	ErrRefused   = cas.ErrRefused
)

// ErrMessage reports that a message is not an envelope, or that its body is not
// the one that was packed: cut, changed, longer than declared, of an unknown
// version. Retrying does not help. The caller moves the message to the
// dead-letter queue with the error as its reason.
var ErrMessage = errors.New("the message cannot be read")
