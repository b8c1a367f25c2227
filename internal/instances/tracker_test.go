package instances

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestTracker: a problem lasts from its first occurrence until it is solved, or
// until it did not occur again in time. Then the next one is a new problem.
func TestTracker(t *testing.T) {
	const lasts = 10 * time.Minute
	type step struct {
		after  time.Duration
		cause  string // "": it is only looked at
		lasts  time.Duration
		solved bool
		count  int64         // wanted; 0: no problem
		since  time.Duration // wanted, from the start
	}
	for name, steps := range map[string][]step{
		"solved": {
			{cause: "a", lasts: lasts, count: 1},
			{after: time.Minute, solved: true},
			{after: time.Minute, cause: "b", lasts: lasts, count: 1, since: 2 * time.Minute},
		},
		"over": {
			{cause: "a", lasts: lasts, count: 1},
			{after: lasts, count: 1},
			{after: 1},
			{after: time.Minute, cause: "b", lasts: lasts, count: 1, since: lasts + time.Minute + 1},
		},
		"over before the next one, unread": {
			{cause: "a", lasts: lasts, count: 1},
			{after: lasts + 1, cause: "b", lasts: lasts, count: 1, since: lasts + 1},
		},
		"again in time": {
			{cause: "a", lasts: lasts, count: 1},
			{after: lasts, cause: "b", lasts: lasts, count: 2},
			{after: lasts, cause: "c", lasts: lasts, count: 3},
			{after: lasts + 1},
		},
		"for ever": {
			{cause: "a", count: 1},
			{after: 1000 * time.Hour, count: 1},
			{cause: "b", lasts: lasts, count: 2},
			{after: lasts + 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tracker Tracker[string, string]
				began := time.Now()
				last := ""
				for i, s := range steps {
					time.Sleep(s.after)
					if s.cause != "" {
						last = s.cause
						if got := tracker.Occurred("x", s.cause, s.lasts); got.Count != s.count {
							t.Errorf("step %d: %d occurrences, want %d", i, got.Count, s.count)
						}
					}
					if s.solved {
						tracker.Solved("x")
					}
					got, ok := tracker.All()["x"]
					if ok != (s.count > 0) || tracker.IsEmpty() == ok || ok && (got.Count != s.count || got.Cause != last || !got.Since.Equal(began.Add(s.since))) {
						t.Errorf("step %d: %+v, %v, want %d since %v with cause %q", i, got, ok, s.count, s.since, last)
					}
				}
			})
		})
	}
}

// TestTrackerIsBounded: callers that choose ever new names fill no memory, and
// problems that are over make room.
func TestTrackerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tracker Tracker[string, int]
		fill := func(prefix string) {
			for i := range 2 * maxTracked {
				tracker.Occurred(fmt.Sprint(prefix, i), i, time.Minute)
			}
		}
		fill("a")
		tracker.Solved("b0") // is not known
		fill("b")
		all := tracker.All()
		if _, ok := all["a0"]; !ok || len(all) != maxTracked {
			t.Errorf("%d problems, want the first %d", len(all), maxTracked)
		}
		time.Sleep(time.Minute + 1)
		fill("c")
		all = tracker.All()
		if _, ok := all["c0"]; !ok || len(all) != maxTracked {
			t.Errorf("%d problems later, want the first %d", len(all), maxTracked)
		}
	})
}
