package client_test

import "testing"

func TestTimers(t *testing.T) {
	const timer = `{"timer":"digest","schedule":"0 6 * * *","zone":"UTC","paused":null,"nextAt":"2026-11-28T06:00:00Z","runningSince":null,"lastOkAt":"2026-11-27T06:00:04Z","last":{"slot":"2026-11-27T06:00:00Z","at":"2026-11-27T06:00:04Z","outcome":"failed","seconds":3.9,"error":"broken"}}`
	const run = `{"timer":"digest","slot":"2026-11-27T20:15:00.123001Z"}`
	a, c := playing(t, ok(`{"items":[`+timer+`]}`), ok(timer), ok(run))
	l, err := c.Timers(t.Context())
	if err != nil || len(l.Items) != 1 || l.Items[0].RunningSince != nil || l.Items[0].Last.Error != "broken" {
		t.Errorf("got %+v, %v", l, err)
	}
	if one, err := c.Timer(t.Context(), "digest"); err != nil || one.NextAt.Hour() != 6 || one.LastOKAt == nil || string(one.JSON()) != timer {
		t.Errorf("got %+v, %v", one, err)
	}
	if r, err := c.RunTimer(t.Context(), "digest"); err != nil || r.Slot.Minute() != 15 {
		t.Errorf("got %+v, %v", r, err)
	}
	same(t, "asked", []string{"GET /timers", "GET /timers/digest", "POST /timers/digest/run"}, a.asked)
}
