package gate

import (
	"context"
	"errors"
	"time"
)

// Flag is what a store holds for one gate.
type Flag struct {
	Text    string // the gate's document, as stored
	Version string // the store's token for this state; opaque to this package; "" if there is no document

	// ReadAt is the time on the store's clock when it answered a Load, in whole
	// seconds at least. Only Load sets it.
	ReadAt time.Time
}

// MaxText is the longest document, in bytes, that a store has to accept. Fifty
// changes with the longest reasons need less than that.
const MaxText = 1 << 20

// Store keeps one Flag per gate and replaces it by compare-and-swap.
//
// Both methods are called concurrently, also for one gate. Reads are strongly
// consistent, and a write is durable when Replace returns nil. The store does
// not retry: its caller does, because only the caller can tell a lost reply
// from a lost race.
type Store interface {
	// Load returns the gate's flag. A gate without a document has a flag with
	// ReadAt alone. If seen is not empty and is still the version in the store,
	// Load returns ErrUnchanged instead, which costs the store next to nothing.
	// A text longer than MaxText is cut.
	Load(ctx context.Context, gate, seen string) (Flag, error)

	// Replace stores next in the place of old and returns next with its new
	// version. An old without a version means that the gate must not have a
	// document yet. ErrChanged reports that the store no longer holds old:
	// another writer was faster, or an earlier try of this very write arrived.
	// Any other error leaves open whether next was stored.
	Replace(ctx context.Context, gate string, old, next Flag) (Flag, error)
}

// What a Store returns.
var (
	ErrUnchanged = errors.New("the gate has not changed")
	ErrChanged   = errors.New("the gate has changed")
)
