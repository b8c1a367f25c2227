package model

import (
	"context"
	"io"
	"time"

	"kennel/queue"
)

// Put puts the text of a message into a queue, from which it is not received
// before delay. It repeats a put that fails, so the message may exist more than
// once. After an error it may exist.
type Put func(ctx context.Context, queue, text string, delay time.Duration) error

// Depths shows the sweep whether messages are left.
type Depths interface {
	queue.Counter
	queue.Peeker
}

// Gate is the gate of the work queues. Its methods are called concurrently.
type Gate interface {
	// Opened returns since when the gate is open, or the zero time if it is
	// closed. It answers from memory, except the first time.
	Opened(ctx context.Context) (time.Time, error)

	// Wait waits until the gate is open, at most for limit, and reports whether
	// it is.
	Wait(ctx context.Context, limit time.Duration) (open bool, err error)
}

// Submission is a batch as a caller submits it.
type Submission struct {
	Processor string
	Name      string // for people; may be empty
	Key       string // "": none. The same key and body are the same batch for a day.

	// Body is NDJSON, or with Array one JSON array of items; plain or gzip, which
	// is recognized by its first bytes. It is read once.
	Body  io.Reader
	Array bool
}

// Message is a message that was received from a queue.
type Message struct {
	Text        string
	Redelivered bool    // it was received before: what it asks for may be done
	Share       float64 // of the request that received it: 1 divided by its messages
}
