package main

import (
	"context"
	"testing"
	"time"

	"kennel"
	"kennel/kenneltest"
)

// TestNights: each night has its report, also one that fails at first.
func TestNights(t *testing.T) {
	build := func(k *kenneltest.Kit) kennel.Program {
		return (&reports{write: func(_ context.Context, day string) error { return k.Effect("report", day, nil) }}).program
	}
	kenneltest.Run(t, build, func(k *kenneltest.Kit) {
		k.Advance(24 * time.Hour)
		k.FailEffect("report", false)
		k.Advance(24 * time.Hour)
		days := k.Effects("report")
		if len(days) != 2 || days[0].Key != "2026-02-28" || days[1].Key != "2026-03-01" {
			t.Errorf("reports %v", days)
		}
	}, &kenneltest.Options{Start: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)})
}
