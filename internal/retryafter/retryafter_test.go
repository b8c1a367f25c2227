package retryafter

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-5": 0, "1.5": 0, "0x10": 0, "0": 0, "Sat, 28 Nov 2026": 0,
		"1": time.Second, "0120": 2 * time.Minute, " 5 ": 5 * time.Second,
		"31536001": longest, "18446744073709551615": longest, "99999999999999999999999": longest,
		"Sat, 28 Nov 2026 12:01:30 GMT":    90 * time.Second,
		"Saturday, 28-Nov-26 12:00:10 GMT": 10 * time.Second,
		"Sat Nov 28 12:00:20 2026":         20 * time.Second,
		"Sat, 28 Nov 2026 11:59:00 GMT":    0,
		"Mon, 01 Jan 0001 00:00:00 GMT":    0,
		"Fri, 31 Dec 9999 23:59:59 GMT":    longest,
	} {
		if got := Parse(value, now); got != want {
			t.Errorf("Retry-After: %s: %v, want %v", value, got, want)
		}
	}
}
