package relay

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Timers use the monotonic clock, which does not jump. The wall clock only
// counts for what is stored: after a jump a message may expire early or late,
// but never lives longer in its entity than its sender wanted.
func TestFailureMode23ClockJumps(t *testing.T) {
	// Not in a bubble, whose times have no monotonic clock.
	s, err := NewSender(nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := s.entity("orders")
	e.failover = true
	lost := &Error{Class: Unavailable, Err: errors.New("lost")}
	monotonic := func(what string, all ...time.Time) {
		t.Helper()
		for i, at := range all {
			if !strings.Contains(at.String(), " m=") {
				t.Errorf("%s: time %d is of the wall clock: %v", what, i, at)
			}
		}
	}
	a, err := e.admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e.answered(a, lost, false)
	monotonic("suspect", a.began, e.since, e.nextTry, e.failing, e.lastFailure)
	e.answered(a, &Error{Class: Throttled, After: time.Minute, Err: errors.New("busy")}, false)
	monotonic("throttled", e.since, e.nextTry)
	p := paths{all: make(map[string]*path)}
	p.enter("orders")
	p.leave("orders", lost)
	monotonic("path", p.until("orders"))

	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	m := clone(&Message{})
	m.Header.TTL = time.Hour
	sealed := seal("orders", m, now)
	for jump, want := range map[time.Duration]time.Duration{-24 * time.Hour: time.Hour, 0: time.Hour, 30 * time.Minute: 30 * time.Minute} {
		if _, got, err := unseal(sealed, now.Add(jump)); err != nil || got.Header.TTL != want {
			t.Errorf("after a jump of %v: the time to live is %v, %v, want %v", jump, got.Header.TTL, err, want)
		}
	}
	if _, _, err := unseal(sealed, now.Add(2*time.Hour)); err != errExpired {
		t.Errorf("after a jump of 2h: %v, want %v", err, errExpired)
	}
}
