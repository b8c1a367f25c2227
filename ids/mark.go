package ids

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrCorrupt reports that the stored mark of a sequence cannot be used: it is
// not a number, or it contradicts an earlier reservation of this node. No
// number is issued until an operator repairs it.
var ErrCorrupt = errors.New("the stored number of the sequence cannot be used")

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
