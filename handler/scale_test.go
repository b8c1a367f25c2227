package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kennel/client"
	"kennel/internal/customhandler"
)

// TestScaleTarget: a target that is no container app stops the start.
func TestScaleTarget(t *testing.T) {
	for _, args := range [][]string{nil, {"worker", "--listen", "127.0.0.1:0"}} {
		var output bytes.Buffer
		code := execute(args, []string{"AzureWebJobsStorage=UseDevelopmentStorage=true", "FUNCTIONS_CUSTOMHANDLER_PORT=" + strconv.Itoa(freePort(t)), "KENNEL_SCALE_TARGET=worker"}, &output, &output)
		if code != 1 || !strings.Contains(output.String(), "invalid setting: KENNEL_SCALE_TARGET: open container app: the resource id is invalid; use /subscriptions/") {
			t.Errorf("%q: code %d, %s", args, code, output.String())
		}
	}
}

// checkScale makes a check, and checks the calls about scaling.
func checkScale(t *testing.T, p *process, app *client.Client, check func(what string, ok bool, got any, err error), refused func(what string, err error, code string)) {
	t.Helper()
	ctx := t.Context()
	tick := customhandler.Trigger{Function: "ScaleCheck", Binding: "tick"}.Timer(customhandler.Tick{})
	if err := p.invoke(t, "ScaleCheck", tick); err != nil {
		t.Error(err)
	}
	// Another process of the tests may check at this moment: then the first
	// check ends a little later.
	latest, err := app.Scale(ctx)
	for deadline := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		latest, err = app.Scale(ctx)
	}
	check("the last check", len(latest.Advice) > 0 && latest.Advice[0].Instances != nil && latest.Advice[0].Reason != "", latest, err)
	found := false
	for item, err := range app.ScaleHistory(ctx, latest.At, time.Time{}) {
		check("the history", !item.At.Before(latest.At), item, err)
		found = found || item.At.Equal(latest.At)
	}
	if !found {
		t.Errorf("the history has no check at %v", latest.At)
	}
	_, err = app.PutScaleRules(ctx, json.RawMessage(`{"version":1,"depth":[]}`))
	refused("rules without rows", err, "bad_rules")
	e, _ := errors.AsType[*client.Error](err)
	check("the faults of rules", e != nil && slices.Equal(e.Items, []client.BadItem{{Member: "depth", Message: "depth has no rows; use at least one with hands"}}), e, nil)
	rules, err := app.ScaleRules(ctx)
	check("rules", rules.Version == 1 && strings.Contains(string(rules.JSON()), `"depth":[{`), nil, err)
	rules, err = app.PutScaleRules(ctx, rules.JSON())
	check("rules that are put", rules.Version == 1, nil, err)
}
