package ids

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrCorrupt reports that the stored mark of a sequence cannot be used: it is
// not a number, or it contradicts an earlier reservation of this node. No
// number is issued until an operator repairs it.
var ErrCorrupt = errors.New("the stored number of the sequence cannot be used")

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

// Value returns the mark in the form in which a store holds it.
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

// MaxExact is the largest whole number that every JSON reader keeps exactly,
// and the default end of a sequence.
const MaxExact = 1<<53 - 1

// maxNext bounds the stored number, so that one past the last number of any
// sequence can still be written.
const maxNext = math.MaxInt64

// byteOrderMark precedes the text that some editors and .NET writers store.
const byteOrderMark = "\ufeff"

// maxText is the longest text that can be a number, in bytes. A longer one may
// have been cut, and must not be taken for another number.
const maxText = 64

// parseNext parses a stored number. It ignores a leading byte order mark and
// trailing white space, because editors and other programs add them. It returns
// ErrCorrupt for any other text that is not the canonical decimal.
func parseNext(text string) (int64, error) {
	digits := strings.TrimRight(strings.TrimPrefix(text, byteOrderMark), " \t\r\n")
	next, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || len(text) > maxText || strconv.FormatInt(next, 10) != digits || next < 0 {
		return 0, fmt.Errorf("%w: %s is not a whole number from 0 to %d", ErrCorrupt, quote(text), int64(MaxExact))
	}
	return next, nil
}

// Next returns the next free number of the sequence. It fails with ErrCorrupt
// if the text is not a number.
func (m Mark) Next() (int64, error) { return parseNext(m.Text) }

// parsePeak returns the highest number that a mark's text ever was.
func parsePeak(m Mark, next int64) (int64, error) {
	if m.Peak == "" {
		return next, nil
	}
	peak, err := parseNext(m.Peak)
	if err != nil {
		return 0, fmt.Errorf("peak of the sequence: %w", err)
	}
	return max(peak, next), nil // another program may have kept an old peak
}

func formatNext(next int64) string { return strconv.FormatInt(next, 10) }

// quote quotes stored text for a message. It cuts long text, so that a blob of
// megabytes does not fill the log.
func quote(text string) string {
	const maxShown = 40
	if len(text) > maxShown {
		return strconv.Quote(text[:maxShown]) + "…"
	}
	return strconv.Quote(text)
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
