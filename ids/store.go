package ids

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Mark is what a store holds for one sequence.
//
// Text is the next free number in decimal, nothing else: the format of the
// article this package comes from, which other programs read and write too.
// Writer and Floor travel beside it (as blob metadata); marks written by other
// programs have neither.
type Mark struct {
	Text    string // the next free number, as stored
	Writer  string // names the very write that stored this mark; "" if unknown
	Floor   string // numbers below it are not to be issued any more; "" if never raised
	Version string // the store's own token for this state; opaque to this package
}

// Limits of a Mark, in bytes, which every store enforces with CheckMark.
const (
	MaxText     = 64  // the longest number has 19
	maxMetadata = 256 // far below the 8 KiB that a blob's headers share
)

// CheckMark reports why a store does not accept a mark. A store calls it
// before each write.
func CheckMark(m Mark) error {
	if len(m.Text) > MaxText {
		return fmt.Errorf("text of %d bytes is longer than %d", len(m.Text), MaxText)
	}
	for _, value := range []string{m.Writer, m.Floor} {
		if len(value) > maxMetadata {
			return fmt.Errorf("metadata of %d bytes is longer than %d", len(value), maxMetadata)
		}
		if strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return fmt.Errorf("metadata %q does not survive as an HTTP header", value)
		}
	}
	return nil
}

// Store keeps one Mark per sequence and replaces it by compare-and-swap.
//
// Both methods are called concurrently, also for one sequence. Reads are
// strongly consistent, and a write is durable when Replace returns nil.
// The store does not retry: the generator does, because only it can tell a
// lost reply from a lost race.
type Store interface {
	// Load returns the sequence's mark with its version, or ErrNotFound.
	Load(ctx context.Context, sequence string) (Mark, error)

	// Replace stores next in the place of old and returns next with its new
	// version. An old without a version means that the sequence must not
	// exist yet. ErrChanged says that the store no longer holds old, be it
	// because another node was faster or because an earlier try of this very
	// write had arrived. Any other error leaves open whether next was stored.
	Replace(ctx context.Context, sequence string, old, next Mark) (Mark, error)
}

// What a Store answers, and what callers branch on.
var (
	ErrNotFound = errors.New("no such sequence")
	ErrChanged  = errors.New("the sequence was changed meanwhile")
)
