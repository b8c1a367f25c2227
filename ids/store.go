package ids

import (
	"context"
	"errors"

	"kennel/internal/cas"
)

// Value is what a store holds for one sequence, and MarkOf reads it. Its text
// is the next free number in decimal and nothing else.
type Value = cas.Value

// Store keeps one Value per sequence and replaces it by compare-and-swap. It is
// the contract of package gate, too, with what a deleted sequence needs.
type Store interface {
	// Load returns the value of a sequence. If seen is not "" and is still the
	// version in the store, Load returns ErrUnchanged instead. A sequence
	// without a value has a Value without a version; if it was remembered, Load
	// returns ErrMissing.
	Load(ctx context.Context, sequence, seen string) (Value, error)

	// Replace stores next in the place of old and returns next with its new
	// version. ErrChanged reports that the store no longer holds old: another
	// node was faster, or an earlier try of this very write arrived.
	Replace(ctx context.Context, sequence string, old, next Value) (Value, error)

	// Remember records, apart from the value, that the sequence exists. The
	// record outlasts the value. Repeating it changes nothing.
	Remember(ctx context.Context, sequence string) error
}

// Errors of a Store. Any other error of a write leaves open whether it was
// made.
var (
	ErrUnchanged = cas.ErrUnchanged
	ErrChanged   = cas.ErrChanged

	// ErrMissing reports that a sequence exists but its stored number was
	// deleted. No number is issued until an operator restores or raises it.
	ErrMissing = errors.New("the stored number of the sequence was deleted")

	// ErrRefused reports that the store rejected a request for good, for
	// example because this node lacks the right to write. Retrying does not
	// help until an operator fixes the cause.
	ErrRefused = cas.ErrRefused
)

// ErrNotFound reports a sequence that was never created.
var ErrNotFound = errors.New("the sequence does not exist")
