package ids

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Mark is what a store holds for one sequence.
//
// Text is the next free number in decimal and nothing else. Other programs read
// and write this format of the article that the package comes from. Writer,
// Peak, History, Forks and Known are stored beside it, as blob metadata. Marks
// that other programs write have none of them.
type Mark struct {
	Text    string // the next free number, as stored
	Writer  string // unique name of the write that stored this mark; "" if unknown
	Peak    string // the highest number that Text ever was; "" if it is Text
	History string // which writes led to this mark; "" if unknown
	Forks   string // where copies were moved on; "" if nowhere, or if it is unknown
	Known   bool   // Remember succeeded before this mark was stored
	Version string // the store's token for this state; opaque to this package
	Copied  bool   // Load found that the mark was stored CopyAge or more after it was written, as a restored copy is
}

// CopyAge is the age of a copy that a store has to notice, if it can.
const CopyAge = 30 * time.Second

// Limits of a Mark, in bytes. Every store enforces them with CheckMark.
const (
	MaxText     = 64  // the longest number has 19
	maxMetadata = 256 // far below the 8 KiB for all metadata of a blob
	maxHistory  = 640 // sixteen writers with the longest serials have 583
)

// CheckMark returns an error that states why a store must not accept a mark. A
// store calls it before each write.
func CheckMark(m Mark) error {
	if len(m.Text) > MaxText {
		return fmt.Errorf("text of %d bytes is longer than %d", len(m.Text), MaxText)
	}
	for i, value := range []string{m.Writer, m.Peak, m.History, m.Forks} {
		if limit := []int{maxMetadata, maxMetadata, maxHistory, maxMetadata}[i]; len(value) > limit {
			return fmt.Errorf("metadata of %d bytes is longer than %d", len(value), limit)
		}
		if strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return fmt.Errorf("metadata %q cannot be sent unchanged as an HTTP header", value)
		}
	}
	return nil
}

// Store keeps one Mark per sequence and replaces it by compare-and-swap.
//
// Its methods are called concurrently, also for one sequence. Reads are
// strongly consistent, and a write is durable when Replace or Remember returns
// nil. The store does not retry: the generator does, because only it can tell a
// lost reply from a lost race.
//
// An error that wraps ErrRefused reports a request that the store rejected and
// did not execute. Any other error of a write, except ErrChanged, leaves open
// whether it was executed.
type Store interface {
	// Load returns the sequence's mark with its version. If there is none it
	// returns ErrNotFound, or ErrMissing if the sequence was remembered. A mark
	// without Copied may still be a copy.
	Load(ctx context.Context, sequence string) (Mark, error)

	// Replace stores next in the place of old and returns next with its new
	// version. An old without a version means that the sequence must not
	// exist yet. ErrChanged reports that the store no longer holds old: another
	// node was faster, or an earlier try of this very write arrived.
	Replace(ctx context.Context, sequence string, old, next Mark) (Mark, error)

	// Remember records, apart from the mark, that the sequence exists. The
	// record outlasts the mark. Repeating it changes nothing.
	Remember(ctx context.Context, sequence string) error
}

// What a Store returns.
var (
	ErrNotFound = errors.New("the sequence does not exist")
	ErrChanged  = errors.New("the sequence has changed")

	// ErrMissing reports that a sequence exists but its stored number was
	// deleted. No number is issued until an operator restores or raises it.
	ErrMissing = errors.New("the stored number of the sequence was deleted")

	// ErrRefused reports that the store rejected a request for good, for
	// example because this node lacks the right to write. Retrying does not
	// help until an operator fixes the cause.
	ErrRefused = errors.New("the store rejected the request")
)
