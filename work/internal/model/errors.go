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
)
