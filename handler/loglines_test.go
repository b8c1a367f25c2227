package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"kennel/internal/apptest"
	"kennel/internal/customhandler"
	"kennel/internal/dev/devbus"
	"kennel/internal/faultproxy"
	"kennel/internal/storetest"
)

// ofNoCall are the messages about the process or a watched gate. No call causes
// them, so they have no invocation. Every other line must have one.
var ofNoCall = []string{
	"ready", "stopped",
	"receiving gate signals; polling rarely",
	"gate signals are interrupted; polling instead, so releases may be seen late",
	"cannot write the row of this instance; other instances do not see it",
	"cannot remove old rows of the instance table",
}

// logLine is what the test reads of a line of the log.
type logLine struct {
	Level, Msg, Invocation, Function string
	Count                            int
}

// TestLogLinesOfCalls: with working and with failing storage, every line that a
// call of any kind of function causes has its invocation and function. A
// failure is a line and, if it repeats, a second one with the number of the
// others. No line has a key, a body or a query.
func TestLogLinesOfCalls(t *testing.T) {
	t.Parallel()
	proxy := apptest.NewProxy(t)
	bus, setting := apptest.WithBus(t)
	p := start(t, built.handler, "AzureWebJobsStorage="+proxy.ConnectionString(), setting, "KENNEL_LOG_LEVEL=debug", oneTry)
	p.receives(t, true)
	const secret = "s3cret-of-the-caller"
	name := storetest.Name()
	calls := 0
	newID := func() string { calls++; return fmt.Sprintf("call-%d", calls) }

	// A call of a route returns its invocation. So does a call of a
	// queue function or of a timer.
	route := func(method, path, body string) (id string) {
		t.Helper()
		id = newID()
		header := []string{"X-Azure-Functions-InvocationId", id, "X-Functions-Key", secret}
		if body != "" {
			header = append(header, "Content-Type", "application/json")
		}
		_, answer, _ := p.call(t, method, path, strings.NewReader(body), header...)
		if got := answer.Get("X-Request-Id"); got != id {
			t.Errorf("%s %s: X-Request-Id %q, want %q", method, path, got, id)
		}
		return id
	}
	invoke := func(function string, e customhandler.Envelope) (id string) {
		e.ID = newID()
		_ = p.invoke(t, function, e) // the log has the result
		return e.ID
	}
	message := func(text string) customhandler.Envelope {
		return cleanupOf(customhandler.QueueMessage{Text: text})
	}
	want := make(map[string][]string) // messages by invocation
	expect := func(id string, messages ...string) { want[id] = messages }

	const done, succeeded = "HTTP call done", "invocation succeeded"
	channel, gate := "/api/channels/"+name, "/api/gates/"+name
	next := "/api/sequences/" + name + "/next"
	for _, call := range [][3]string{
		{"GET", "/api/health", ""}, {"GET", "/api/status", ""}, {"GET", "/api/openapi.yaml", ""},
		{"POST", next, ""}, {"POST", next + "?count=0", ""}, {"GET", "/api/sequences/" + name, ""},
		{"GET", gate, ""}, {"POST", gate + "/release", `{"by":"ann","reason":"` + secret + `"}`}, {"GET", gate + "/wait?timeout=1s", ""},
		{"PUT", channel, `{"owner":"` + secret + `"}`}, {"POST", channel + "/blogs", apptest.Draft}, {"GET", channel + "/blogs", ""},
		{"GET", channel + "/deletion", ""},
	} {
		expect(route(call[0], call[1], call[2]), done)
	}
	expect(route("POST", "/api/sequences/"+name+"/raise", `{"atLeast":100000,"reason":"restored"}`), "sequence raised", done)
	deletion := `{"v":1,"channel":"` + name + `","incarnation":"` + p.channels(t, "GET", "/"+name, "").Incarnation + `"}`
	expect(route("DELETE", channel, ""), "channel deleted", done)
	enveloped, err := customhandler.Trigger{Function: "NextOrderId", Binding: "req"}.HTTP(httptest.NewRequest("POST", next+"?code="+secret, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	expect(invoke("NextOrderId", enveloped), succeeded)
	expect(invoke("ChannelCleanup", message(deletion)), succeeded)
	expect(invoke("ChannelCleanup", message(secret)), "message put among the dead letters", succeeded)
	expect(invoke("ChannelSweep", sweepNow()), "channels swept", succeeded)

	bus.Fail(devbus.Fault{Kind: devbus.RefuseDial})
	bus.DropConnections()
	p.receives(t, false)
	expect(route("POST", gate+"/close", ""), "cannot send the signal of a gate; others see the change when they poll", done)

	heal := proxy.Add(faultproxy.Fault{Status: 403})
	const repeats = 3
	var counted []string // the first invocation of each failure
	for _, fail := range []func() string{
		func() string { return route("POST", "/api/sequences/new-"+name+"/next", "") },
		func() string { return route("GET", "/api/sequences/"+name, "") },
		func() string { return route("POST", gate+"/release", "") },
		func() string { return route("GET", channel, "") },
		func() string { return invoke("ChannelCleanup", message(deletion)) },
		func() string { return invoke("ChannelSweep", sweepNow()) },
	} {
		counted = append(counted, fail())
		for range repeats {
			fail()
		}
	}
	heal()
	p.terminate()
	if code := p.exitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}

	got := make(map[string][]logLine)
	for text := range strings.Lines(p.output.String()) {
		var line logLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if (line.Invocation == "") != slices.Contains(ofNoCall, line.Msg) || (line.Invocation == "") != (line.Function == "") {
			t.Errorf("want the invocation and its function in each line that belongs to a call: %s", text)
		}
		if strings.Contains(text, secret) || strings.Contains(text, "AccountKey") || strings.Contains(text, "SharedAccessKey=") {
			t.Errorf("a key or a body is in the log: %s", text)
		}
		got[line.Invocation] = append(got[line.Invocation], line)
	}
	for id, messages := range want {
		var lines []string
		for _, line := range got[id] {
			lines = append(lines, line.Msg)
		}
		if !slices.Equal(lines, messages) {
			t.Errorf("%s: got the lines %q, want %q", id, lines, messages)
		}
	}
	failures := 0
	for id, lines := range got {
		for _, line := range lines {
			if _, ok := want[id]; !ok && id != "" && line.Level != "DEBUG" {
				failures++
			}
		}
	}
	if failures != 2*len(counted) {
		t.Errorf("%d lines about calls that failed, want 2 for each of %d causes", failures, len(counted))
	}
	for _, id := range counted {
		var counts []int
		for _, line := range got[id] {
			if line.Level == "ERROR" {
				counts = append(counts, line.Count)
			}
		}
		if !slices.Equal(counts, []int{0, repeats}) {
			t.Errorf("%s: got failures with the counts %d, want the first, and later how often it repeated", id, counts)
		}
	}
}
