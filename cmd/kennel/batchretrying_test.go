package main

import (
	"strings"
	"testing"
	"time"

	"kennel/client"
)

// TestDescribeRetrying: "kennel batch show" has a line with what is tried again.
func TestDescribeRetrying(t *testing.T) {
	r := &client.BatchRetrying{Items: 2, Attempts: 3, MaxAttempts: 5, Item: "i7", Error: "the receiver\nanswered 503", NextAt: time.Date(2026, 11, 22, 21, 6, 1, 0, time.UTC)}
	got := describeWholeBatch(client.Batch{State: client.BatchRunning, Retrying: r})
	_, line, _ := strings.Cut(got, "storage operations\n")
	if want := "  2 items tried again, next at 2026-11-22T21:06:01Z; item i7 had 3 of 5 attempts, the last error: the receiver"; !strings.HasPrefix(line, want) || strings.Contains(line, "\n") {
		t.Errorf("%q, want %q", line, want)
	}
	if r.More = true; !strings.Contains(describeRetrying(r), "2 items or more tried again") || describeRetrying(nil) != "" {
		t.Errorf("%q", describeRetrying(r))
	}
}
