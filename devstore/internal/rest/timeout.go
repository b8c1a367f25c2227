package rest

import (
	"errors"
	"math"
	"net/url"
	"strconv"
)

// CheckTimeout checks the parameter timeout, in seconds, which all operations
// have. Azure reduces one that is too long for the operation. Here it has no
// effect, because no operation takes that long.
func CheckTimeout(query url.Values) error {
	const name = "timeout"
	text := query.Get(name)
	if text == "" {
		return nil
	}
	switch n, err := strconv.ParseInt(text, 10, 64); {
	case errors.Is(err, strconv.ErrRange) && n > 0: // too long, too
		return nil
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return InvalidQuery(name, text, "It is a whole number of seconds.")
	case n < 0:
		return OutOfRange(name, text, 0, math.MaxInt32)
	}
	return nil
}
