package main

import (
	"strings"
	"testing"
	"time"

	"kennel/client"
)

func TestDrawScale(t *testing.T) {
	begin := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	check := func(minute, ready, advised, running int) client.ScaleCheck {
		return client.ScaleCheck{At: begin.Add(time.Duration(minute) * time.Minute), Running: running,
			Advice:  []client.ScaleAdvice{{Instances: &advised}, {Queue: "work-0"}},
			Samples: []client.ScaleSample{{Ready: int64(ready)}, {Ready: 0}}}
	}
	checks := []client.ScaleCheck{check(0, 0, 1, 1), check(1, 5000, 8, 1), check(2, 2500, 8, 8), check(5, 10, 1, 4)}
	want := strings.Join([]string{
		"ready    ▁█▅  ▂  up to 5,000",
		"advised  ▂██  ▂  up to 8",
		"running  ▂▂█  ▅  up to 8",
		"         11-23 09:00 09:05 UTC",
		"",
	}, "\n")
	if got := drawScale(checks); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	one := drawScale(checks[1:2])
	if !strings.HasPrefix(one, "ready    █  up to 5,000\n") {
		t.Errorf("of one check:\n%s", one)
	}
	var day []client.ScaleCheck
	for minute := range 24 * 60 {
		day = append(day, check(minute, map[int]int{600: 5000}[minute], 0, 0))
	}
	chart := drawScale(day)
	if !strings.Contains(chart, "up to 5,000") {
		t.Errorf("a column of several checks is not their maximum:\n%s", chart)
	}
	for line := range strings.Lines(chart) {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("a line of a day has %d columns: %s", n, line)
		}
	}
}
