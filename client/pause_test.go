package client_test

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"kennel/client"
)

// TestPauseTimer: a lost answer is repeated, for a change that was made has no
// further effect.
func TestPauseTimer(t *testing.T) { synctest.Test(t, testPauseTimer) }

func testPauseTimer(t *testing.T) {
	const paused = `{"timer":"digest","schedule":"0 6 * * *","zone":"UTC","paused":{"at":"2026-11-27T20:15:00Z","by":{"name":"ann","verified":true},"reason":"broken"},"nextAt":"2026-11-28T06:00:00Z","runningSince":null,"lastOkAt":null,"last":null}`
	const resumed = `{"timer":"digest","schedule":"0 6 * * *","zone":"UTC","paused":null,"nextAt":"2026-11-28T06:00:00Z","runningSince":null,"lastOkAt":null,"last":null}`
	a, c := playing(t, &net.OpError{Op: "read", Err: errReset}, ok(paused), ok(resumed))
	if one, err := c.PauseTimer(t.Context(), "digest", client.PauseChange{Reason: "broken"}); err != nil || one.Paused == nil || one.Paused.By != (client.Person{Name: "ann", Verified: true}) || one.Paused.Reason != "broken" {
		t.Errorf("got %+v, %v", one, err)
	}
	if one, err := c.ResumeTimer(t.Context(), "digest", client.PauseChange{}); err != nil || one.Paused != nil {
		t.Errorf("got %+v, %v", one, err)
	}
	if _, err := c.PauseTimer(t.Context(), "digest", client.PauseChange{Reason: "\xff"}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a reason that is not UTF-8: %v", err)
	}
	same(t, "asked", []string{`POST /timers/digest/pause {"reason":"broken"}`, `POST /timers/digest/pause {"reason":"broken"}`, "POST /timers/digest/resume {}"}, a.asked)
}

// TestPauseQueue: likewise, and the answer must be about the queue.
func TestPauseQueue(t *testing.T) {
	const paused = `{"queue":"emails","own":true,"paused":{"at":"2026-11-27T20:15:00Z","by":{"name":"ann","verified":false},"reason":""},"ready":3}`
	const resumed = `{"queue":"emails","own":true,"paused":null,"ready":3}`
	a, c := playing(t, ok(paused), ok(resumed), ok(`{"queue":"orders","own":true,"paused":null}`))
	if q, err := c.PauseQueue(t.Context(), "emails", client.PauseChange{By: "ann"}); err != nil || q.Paused == nil || q.Paused.By.Name != "ann" || q.Ready != 3 {
		t.Errorf("got %+v, %v", q, err)
	}
	if q, err := c.ResumeQueue(t.Context(), "emails", client.PauseChange{}); err != nil || q.Paused != nil {
		t.Errorf("got %+v, %v", q, err)
	}
	if _, err := c.ResumeQueue(t.Context(), "emails", client.PauseChange{}); err == nil {
		t.Error("the answer about another queue is taken")
	}
	if _, err := c.PauseQueue(t.Context(), "..", client.PauseChange{}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a name that is none: %v", err)
	}
	same(t, "asked", []string{`POST /queues/emails/pause {"by":"ann"}`, "POST /queues/emails/resume {}", "POST /queues/emails/resume {}"}, a.asked)
}
