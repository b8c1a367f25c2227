package model

import "errors"

// The errors of the package. ErrUnclear reports that a write may have been made.
var (
	ErrNotFound     = errors.New("the batch does not exist")
	ErrRunning      = errors.New("the batch is not finished")
	ErrFailed       = errors.New("the batch failed and has no report")
	ErrProcessor    = errors.New("unknown processor")
	ErrName         = errors.New("the name of the batch is invalid")
	ErrTooLarge     = errors.New("the batch is too large")
	ErrKeyReused    = errors.New("the key was used for another batch")
	ErrRejected     = errors.New("rejected") // of an item, by its Processor
	ErrContinuation = errors.New("the continuation is invalid")
	ErrCorrupt      = errors.New("what is stored of the batch cannot be used")

	// ErrMessage reports a message that can never be processed.
	ErrMessage = errors.New("the message is not one of this app's")

	// ErrHeld reports that a message was put back, because its gate is closed or
	// because only another process can process it: the caller deletes the
	// message, a copy of it is in the queue.
	ErrHeld = errors.New("put back")
)
