package main

import (
	"strings"
	"testing"
	"time"

	"kennel/client"
)

// TestDescribeExpiry: a dead letter that never expires has no date on which it
// is deleted.
func TestDescribeExpiry(t *testing.T) {
	for want, expires := range map[string]time.Time{
		"kept until 2026-11-29T21:06:01Z":      time.Date(2026, 11, 29, 21, 6, 1, 0, time.UTC),
		"kept until it is redriven or deleted": time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		if got := describeWholeLetter(client.DeadLetter{ID: "a", ExpiresAt: expires}); !strings.Contains(got, want+"\n") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
