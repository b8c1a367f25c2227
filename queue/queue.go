// Package queue is what jobs know of message queues in storage: the contract
// that stores implement and the limits of Azure's queues.
//
// # Contract
//
// A message is delivered at least once, in no particular order, and lives for
// seven days. Its receiver holds it by a lease: until the lease ends no other
// receiver gets the message. A receiver that is done deletes the message; one
// that needs more time renews the lease with Update, which can also change the
// body; one that dies does nothing, and the message is received again when the
// lease ends. Each of these requires the newest receipt, and Update returns a
// new one, so one goroutine should own the receipt of a message.
//
// A store sends each request once. After an error a request may have been
// carried out all the same, so messages may exist twice, a lease may be
// renewed under a receipt that got lost, and ErrLeaseLost may be the echo of
// the caller's own first try.
//
// # Limits
//
// [CheckPut], [CheckReceive] and [CheckUpdate] reject what Azure would reject.
// Stores call them before they send anything, so a program that works with an
// emulator or in memory works in Azure too.
package queue

import (
	"context"
	"errors"
	"time"
)

// Message is a message as it was received or put.
type Message struct {
	ID                             string
	Receipt                        string // proves that its holder has the message; each Update gives a new one
	Body                           string // as stored: the sender and the receiver agree on its encoding
	DequeueCount                   int64  // how often it was received, this time included
	Inserted, Expires, NextVisible time.Time
}

// Receiver takes messages out of queues. All methods are called concurrently.
// Durations are rounded up to whole seconds.
type Receiver interface {
	// Receive returns up to max messages, which no other receiver gets for the
	// visibility. A queue that does not exist is empty. If the answer gets
	// lost, the messages in it stay invisible for the visibility.
	Receive(ctx context.Context, queue string, max int, visibility time.Duration) ([]Message, error)

	// Update stores m.Body and makes the message visible again after
	// visibility, 0 for at once. It returns the message with its new receipt;
	// the old one is worthless. ErrLeaseLost reports that the caller does not
	// hold the message any more.
	Update(ctx context.Context, queue string, m Message, visibility time.Duration) (Message, error)

	// Delete removes a message for good. ErrLeaseLost reports that the caller
	// does not hold the message any more.
	Delete(ctx context.Context, queue string, m Message) error
}

// Putter puts messages into queues. Put is called concurrently.
type Putter interface {
	// Put adds a message that is received after delay, rounded up to whole
	// seconds, at the earliest. It creates a missing queue. The message it
	// returns can be updated and deleted until another caller receives it.
	// After an error other than ErrRefused or ErrLimit the message may exist.
	Put(ctx context.Context, queue, body string, delay time.Duration) (Message, error)
}

// Counter estimates the length of queues. Count is called concurrently.
type Counter interface {
	// Count returns about how many messages a queue holds, invisible ones
	// included. A queue that does not exist holds none.
	Count(ctx context.Context, queue string) (int64, error)
}

// The errors of the interfaces above.
//
// ErrLeaseLost reports that the lease ended and another receiver has the
// message, or that the message was deleted, perhaps by an earlier try of the
// same request. ErrRefused is for what a retry does not change: a missing
// permission, a disabled account. After either nothing was done by this
// request.
var (
	ErrLeaseLost = errors.New("the message is no longer held")
	ErrLimit     = errors.New("beyond the limits of a queue")
	ErrRefused   = errors.New("refused by the store")
)
