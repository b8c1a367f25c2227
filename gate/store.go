package gate

import (
	"context"

	"kennel/internal/cas"
)

// Value is what a store holds for one gate: its text is the gate's document. A
// gate without a document has a Value without a version. StateOf reads it.
type Value = cas.Value

// Store keeps one Value per gate and replaces it by compare-and-swap. It is the
// contract of package ids, too.
//
// Both methods are called concurrently, also for one gate. Reads are strongly
// consistent, and a write is durable when Replace returns nil. The store does
// not retry: its caller does, because only the caller can tell a lost reply
// from a lost race.
type Store interface {
	// Load returns the gate's value, with the time on the store's clock when it
	// answered, also if there is no document. If seen is not "" and is still
	// the version in the store, Load returns ErrUnchanged instead, which costs
	// the store next to nothing.
	Load(ctx context.Context, gate, seen string) (Value, error)

	// Replace stores next in the place of old and returns next with its new
	// version. ErrChanged reports that the store no longer holds old: another
	// writer was faster, or an earlier try of this very write arrived. Any
	// other error leaves open whether next was stored.
	Replace(ctx context.Context, gate string, old, next Value) (Value, error)
}

// Errors of a Store.
var (
	ErrUnchanged = cas.ErrUnchanged
	ErrChanged   = cas.ErrChanged
)
