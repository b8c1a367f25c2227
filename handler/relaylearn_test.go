package main

import (
	"slices"
	"testing"

	"kennel/instances"
)

// TestFailedOver: a new process begins on trial what failed over elsewhere.
func TestFailedOver(t *testing.T) {
	live := []instances.Instance{
		{Report: instances.Report{Relay: []instances.RelayEntity{{Entity: "a", State: "failedOver"}, {Entity: "b", State: "suspect"}}}},
		{Report: instances.Report{Relay: []instances.RelayEntity{{Entity: "c", State: "failedOver"}, {Entity: "d", State: "healthy"}}}},
	}
	if got := failedOver(live); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("got %v, want a and c", got)
	}
}
