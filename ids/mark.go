package ids

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrCorrupt says that what the store holds for a sequence cannot be used: it
// is not a number, or it contradicts what this node had reserved before.
// Nothing is issued until a person has put it right.
var ErrCorrupt = errors.New("the stored number of the sequence cannot be used")

// maxNext bounds the stored number, so that one past the last number of any
// sequence can still be written.
const maxNext = math.MaxInt64

// byteOrderMark is what some editors and .NET writers put before the text.
const byteOrderMark = "\ufeff"

// parseNext reads a stored number. A byte order mark before it and white space
// after it are tolerated, because editors and other programs leave them;
// everything else that is not the canonical decimal is ErrCorrupt.
func parseNext(text string) (int64, error) {
	digits := strings.TrimRight(strings.TrimPrefix(text, byteOrderMark), " \t\r\n")
	next, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || strconv.FormatInt(next, 10) != digits || next < 0 {
		return 0, fmt.Errorf("%w: it reads %s, not a whole number from 0 to %d", ErrCorrupt, quote(text), int64(maxNext))
	}
	return next, nil
}

// parseFloor reads the floor beside a mark, 0 if there is none.
func parseFloor(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	floor, err := parseNext(text)
	if err != nil {
		return 0, fmt.Errorf("floor of the sequence: %w", err)
	}
	return floor, nil
}

func formatNext(next int64) string { return strconv.FormatInt(next, 10) }

// quote shows stored text in a message, cut so that a blob of megabytes does
// not fill the log.
func quote(text string) string {
	const most = 40
	if len(text) > most {
		return strconv.Quote(text[:most]) + "…"
	}
	return strconv.Quote(text)
}
