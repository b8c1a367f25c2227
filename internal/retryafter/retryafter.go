// Package retryafter reads the header Retry-After of an answer.
package retryafter

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longest is the longest wait that Parse returns, so that sums with it do not
// overflow.
const longest = 365 * 24 * time.Hour

// Parse returns the wait that a value of the header requests at a time. The value
// is a number of seconds or a date. 0: there is no value, it is unreadable, or the
// date has passed.
func Parse(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if n, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(n, uint64(longest/time.Second))) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return min(max(0, date.Sub(now)), longest)
	}
	return 0
}
