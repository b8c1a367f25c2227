package ids

import (
	"context"
	"errors"
	"strings"
	"time"

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

// What a Store returns. Any other error of a write leaves open whether it was
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

// Mark is a Value as the package reads it.
//
// Text is the next free number, which other programs read and write in the
// format of the article that the package comes from. Writer, Peak, History,
// Forks and Known are stored beside it, as metadata. Marks that other programs
// write have none of them.
type Mark struct {
	Text    string // the next free number, as stored
	Writer  string // unique name of the write that stored this mark; "" if unknown
	Peak    string // the highest number that Text ever was; "" if it is Text
	History string // which writes led to this mark; "" if unknown
	Forks   string // where copies were moved on; "" if nowhere, or if it is unknown
	Known   bool   // Remember succeeded before this mark was stored
	Version string // the store's token for this state; opaque to this package
	Copied  bool   // the mark was stored CopyAge or more after it was written, as a restored copy is
}

// CopyAge is the age of a copy that is noticed.
const CopyAge = 30 * time.Second

// The metadata of a mark. Known is "1" or missing.
const (
	writerKey  = "writer"
	peakKey    = "peak"
	historyKey = "history"
	forksKey   = "forks"
	knownKey   = "known"
)

// MarkOf returns the mark that a store holds. It cuts a text that is too long for
// a number, and leaves too much of it for one.
func MarkOf(v Value) Mark {
	return Mark{
		Text:    strings.Clone(v.Text[:min(len(v.Text), maxText+1)]),
		Writer:  v.Meta[writerKey],
		Peak:    v.Meta[peakKey],
		History: v.Meta[historyKey],
		Forks:   v.Meta[forksKey],
		Known:   v.Meta[knownKey] != "",
		Version: v.Version,
		Copied:  !v.WrittenAt.IsZero() && v.StoredAt.Sub(v.WrittenAt) >= CopyAge,
	}
}

// Value returns what a store holds of the mark.
func (m Mark) Value() Value {
	v := Value{Text: m.Text, Version: m.Version}
	known := ""
	if m.Known {
		known = "1"
	}
	for key, value := range map[string]string{writerKey: m.Writer, peakKey: m.Peak, historyKey: m.History, forksKey: m.Forks, knownKey: known} {
		if value != "" {
			if v.Meta == nil {
				v.Meta = make(map[string]string)
			}
			v.Meta[key] = value
		}
	}
	return v
}

// load reads the mark of a sequence. It returns ErrNotFound if there is none.
func load(ctx context.Context, store Store, sequence string) (Mark, error) {
	v, err := store.Load(ctx, sequence, "")
	if err == nil && v.Version == "" {
		err = ErrNotFound
	}
	if err != nil {
		return Mark{}, err
	}
	return MarkOf(v), nil
}

// replace stores next in the place of old, and returns it with its version.
func replace(ctx context.Context, store Store, sequence string, old, next Mark) (Mark, error) {
	v, err := store.Replace(ctx, sequence, old.Value(), next.Value())
	if err != nil {
		return Mark{}, err
	}
	next.Version, next.Copied = v.Version, false
	return next, nil
}
