package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

func relayIs(entities ...string) answer {
	return answer{200, "application/json", `{"items":[` + strings.Join(entities, ",") + `]}`, nil}
}

const (
	healthyOrders = `{"entity":"orders","state":"healthy","since":"2026-01-02T03:04:05Z","backlog":{"messages":0,"oldestSeconds":0}}`
	cutOrders     = `{"entity":"orders","state":"failedOver","since":"2026-01-02T03:05:05Z","throttled":false,"lastError":"cut\u001b off","backlog":{"messages":1000,"oldestSeconds":90,"more":true}}`
	suspectNews   = `{"entity":"eu/news","state":"suspect","since":"2026-01-02T03:05:05Z","throttled":true}`
	unknownBills  = `{"entity":"bills","state":"healthy","since":"0001-01-01T00:00:00Z","backlog":{"messages":2,"oldestSeconds":4.5}}`
)

func TestRelayStatus(t *testing.T) {
	url := serving(t, relayIs(unknownBills, suspectNews, cutOrders))
	code, stdout, stderr := call(t, nil, "relay", "status", "--url", url)
	if code != exitDone || stderr != "" {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	same(t, "table", `ENTITY   STATE               SINCE                 BACKLOG        OLDEST  COUNTED  LAST ERROR
bills    healthy             -                     2              4.5s    -        -
eu/news  suspect, throttled  2026-01-02T03:05:05Z  -              -       -        -
orders   failed over         2026-01-02T03:05:05Z  1,000 or more  1m30s   -        cut`+"\ufffd"+` off
`, stdout)
	// The newest count of the backlog is older than the failover.
	justCut := `{"entity":"orders","state":"failedOver","since":"2026-01-02T03:05:05Z","backlog":{"messages":0,"oldestSeconds":0,"at":"2026-01-02T03:05:00Z"}}`
	_, stdout, _ = call(t, nil, "relay", "status", "--url", serving(t, relayIs(justCut)))
	if want := "2026-01-02T03:05:05Z  -        -       -        -\n"; !strings.HasSuffix(stdout, want) {
		t.Errorf("just failed over: got %s, want %s", stdout, want)
	}
	_, stdout, _ = call(t, nil, "relay", "status", "--url", url, "--json")
	if !regexp.MustCompile(`^{"entity":"bills",.*}\n{"entity":"eu/news",.*}\n{"entity":"orders",.*}\n$`).MatchString(stdout) {
		t.Errorf("JSON: got %s", stdout)
	}
	_, stdout, stderr = call(t, nil, "relay", "status", "--url", serving(t, relayIs()))
	if stdout != "" || stderr != "no messages were sent within the last hour, and the backlog is empty\n" {
		t.Errorf("no entities: got %q, %q", stdout, stderr)
	}
}

// TestAgeOfCount: a count that is older than what was sent shows how old it is.
func TestAgeOfCount(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	of := func(name string) client.RelayEntity {
		return client.RelayEntity{Entity: name, State: client.RelayHealthy, Since: at, Backlog: &client.RelayBacklog{At: at}}
	}
	same(t, "table", `ENTITY   STATE    SINCE                 BACKLOG  OLDEST  COUNTED   LAST ERROR
orders   healthy  2026-01-02T03:04:05Z  0        -       40 s ago  -
returns  healthy  2026-01-02T03:04:05Z  0        -       40 s ago  -
`, (&console{stdout: &bytes.Buffer{}}).describeRelay([]client.RelayEntity{of("orders"), of("returns")}, at.Add(40*time.Second)))
}

// Elsewhere than on a terminal a watch prints what has changed, and everything
// again after an outage.
func TestWatchRelay(t *testing.T) {
	for asJSON, want := range map[bool]string{
		false: `TIME orders: healthy
TIME orders: failed over, 1000 messages in the backlog
TIME eu/news: suspect, throttled
TIME orders: failed over, 1000 messages in the backlog
TIME eu/news: suspect, throttled
`,
		true: strings.Join([]string{healthyOrders, healthyOrders, cutOrders, suspectNews, cutOrders, suspectNews}, "\n") + "\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out, errs bytes.Buffer
			con := &console{stdout: &out, stderr: &errs, env: map[string]string{}}
			ctx, cancel := context.WithTimeout(t.Context(), 5*watchEvery-time.Second)
			defer cancel()
			app := appOf(t, answering(relayIs(healthyOrders), relayIs(healthyOrders), relayIs(cutOrders, suspectNews), appError(400, "bad", nil), relayIs(cutOrders, suspectNews)), nil)
			if err := con.watchRelay(ctx, app, asJSON); err != nil {
				t.Error(err)
			}
			got := regexp.MustCompile(`(?m)^2\S+Z `).ReplaceAllString(out.String(), "TIME ")
			same(t, "standard output", want, got)
			same(t, "standard error", "the app returned 400 bad: broken; still watching\n", errs.String())
		})
	}
}

func syphoned(moved, held int, more bool) answer {
	return answer{200, "application/json", fmt.Sprintf(`{"moved":%d,"deadLettered":0,"expired":0,"held":%d,"unreadable":0,"more":%t}`, moved, held, more), nil}
}

func TestSyphon(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers []any
		asJSON  bool
		wait    time.Duration
		stdout  string
		stderr  string
		err     string
	}{
		{"nothing to do", []any{syphoned(0, 0, false)}, false, 0, "0 messages moved\n", "", ""},
		{"in one call", []any{syphoned(1, 0, false)}, false, 0, "1 message moved\n", "", ""},
		{"in several calls", []any{syphoned(20_000, 0, true), syphoned(15_000, 3, true), syphoned(5, 0, false)}, false, 0, "35005 messages moved\n", "", ""},
		{"in JSON", []any{syphoned(5, 0, true), syphoned(3, 0, false)}, true, 0, string(syphoned(5, 0, true).body) + "\n" + syphoned(3, 0, false).body + "\n", "", ""},
		{
			"the primary does not work", []any{syphoned(10, 0, true), syphoned(0, 7, true)}, false, 0, "10 messages moved\n", "",
			"7 messages cannot be moved now; see `kennel relay status`, or use --wait to try again",
		},
		{
			"another run holds them", []any{syphoned(0, 0, true)}, false, 0, "0 messages moved\n", "",
			"messages are left, which another run of the syphon may hold; see `kennel relay status`",
		},
		{
			"some cannot be moved at all", []any{answer{200, "application/json", `{"moved":3,"deadLettered":2,"expired":1,"unreadable":4,"more":false}`, nil}}, false, 0,
			"3 messages moved, 2 dead-lettered in the backlog, 1 expired\n", "", "4 messages cannot be decoded and stay in the backlog; see the app's log",
		},
		{
			"the outage ends", []any{syphoned(0, 7, true), syphoned(0, 7, true), syphoned(0, 7, true), syphoned(0, 7, true), syphoned(0, 7, true), syphoned(0, 7, true), syphoned(7, 0, false)}, false, 13 * time.Second,
			"7 messages moved\n", "0 messages moved, 7 cannot be moved now\n", "",
		},
		{
			"the outage is longer than the wait", []any{syphoned(0, 7, true), syphoned(0, 7, true), syphoned(0, 7, true), syphoned(7, 0, false)}, false, 5 * time.Second,
			"0 messages moved\n", "", "7 messages cannot be moved now; see `kennel relay status`, or use --wait to try again",
		},
		{"off", []any{appError(501, "relay_off", nil)}, false, 0, "", "", "the app returned 501 relay_off: broken; 0 messages moved so far"},
		{"broken", []any{syphoned(10, 0, true), appError(400, "bad", nil)}, false, 0, "", "", "the app returned 400 bad: broken; 10 messages moved so far"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out, errs bytes.Buffer
				con := &console{stdout: &out, stderr: &errs, env: map[string]string{}}
				err := con.syphon(t.Context(), appOf(t, answering(tt.answers...), nil), tt.wait, tt.asJSON)
				expectError(t, "syphon", err, tt.err)
				same(t, "standard output", tt.stdout, out.String())
				same(t, "standard error", tt.stderr, errs.String())
			})
		})
	}
}
