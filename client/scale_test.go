package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"kennel/client"
)

func TestScale(t *testing.T) {
	const check = `{"at":"2026-11-23T09:01:00Z","running":1,"advice":[{"target":"instances","instances":5,"reason":"r"},{"target":"instances","queue":"q","hands":8,"reason":"s"}],"samples":[{"queue":"q","ready":3}]}`
	a, c := playing(t, ok(check))
	s, err := c.Scale(t.Context())
	if err != nil || s.Running != 1 || *s.Advice[0].Instances != 5 || s.Advice[0].Hands != nil || *s.Advice[1].Hands != 8 || s.Samples[0].Ready != 3 || string(s.JSON()) != check {
		t.Errorf("got %+v, %v", s, err)
	}
	same(t, "asked", []string{"GET /scale"}, a.asked)

	a, c = playing(t, ok(`{"items":[`+check+`],"continuation":"x"}`), ok(`{"items":[`+check+`]}`))
	n := 0
	for s, err := range c.ScaleHistory(t.Context(), time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC), time.Time{}) {
		if n++; err != nil || s.Running != 1 {
			t.Errorf("got %+v, %v", s, err)
		}
	}
	same(t, "checks", 2, n)
	same(t, "asked", []string{"GET /scale/history?top=1000&from=2026-11-23T09%3A00%3A00Z", "GET /scale/history?top=1000&continuation=x&from=2026-11-23T09%3A00%3A00Z"}, a.asked)

	const rules = `{"version":1,"depth":[{"from":0,"hands":8}]}`
	a, c = playing(t, ok(rules))
	if got, err := c.ScaleRules(t.Context()); err != nil || got.Version != 1 || string(got.JSON()) != rules {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := c.PutScaleRules(t.Context(), json.RawMessage(rules)); err != nil || string(got.JSON()) != rules {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := c.TryScaleRules(t.Context(), json.RawMessage(rules)); err != nil || string(got.JSON()) != rules {
		t.Errorf("got %+v, %v", got, err)
	}
	same(t, "asked", []string{"GET /scale/rules", "PUT /scale/rules " + rules, "PUT /scale/rules?dryRun=true " + rules}, a.asked)
	for _, put := range []func(context.Context, json.RawMessage) (client.ScaleRules, error){c.PutScaleRules, c.TryScaleRules} {
		if _, err := put(t.Context(), json.RawMessage("{")); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("rules that are not JSON: %v, want ErrInvalid", err)
		}
	}
}
