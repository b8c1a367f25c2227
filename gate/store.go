package gate

import (
	"context"
	"errors"
)

// Flag is what a store holds for one gate.
type Flag struct {
	Text    string // the gate's document, as stored
	Version string // the store's own token for this state; opaque to this package
}

// MaxText is the longest document, in bytes, that a store has to take. Fifty
// transitions with the longest reasons need less than that.
const MaxText = 1 << 20

// Store keeps one Flag per gate and replaces it by compare-and-swap.
//
// Both methods are called concurrently, also for one gate. Reads are strongly
// consistent, and a write is durable when Replace returns nil. The store does
// not retry: its caller does, because only it can tell a lost reply from a
// lost race.
type Store interface {
	// Load returns the gate's flag with its version, or ErrNotFound. If seen
	// is not empty and is still the version in the store, it returns
	// ErrUnchanged instead, which costs the store next to nothing. A text
	// longer than MaxText comes back cut.
	Load(ctx context.Context, gate, seen string) (Flag, error)

	// Replace stores next in the place of old and returns next with its new
	// version. An old without a version means that the gate must not exist
	// yet. ErrChanged says that the store no longer holds old, be it because
	// somebody else was faster or because an earlier try of this very write
	// had arrived. Any other error leaves open whether next was stored.
	Replace(ctx context.Context, gate string, old, next Flag) (Flag, error)
}

// What a Store answers.
var (
	ErrNotFound  = errors.New("no such gate")
	ErrUnchanged = errors.New("the gate is as it was")
	ErrChanged   = errors.New("the gate was changed meanwhile")
)
