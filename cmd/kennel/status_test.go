package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

// statusIs is the app's answer with these problems.
func statusIs(problems ...string) answer {
	status, list := "ok", ""
	for i, p := range problems {
		status = "degraded"
		code, subject, _ := strings.Cut(p, " ")
		list += fmt.Sprintf(`%s{"code":%q,"subject":%q,"what":"It broke.","since":"2026-01-02T03:04:05Z","count":%d,"instances":["a-1"],"help":"Repair it."}`,
			strings.Repeat(",", min(i, 1)), code, subject, i+1)
	}
	return answer{200, "application/json", `{"status":"` + status + `","version":"v1","instance":"a-1","problems":[` + list + `],"instances":[
		{"instance":"a-1","kind":"functions","version":"v1","startedAt":"2026-01-02T03:04:05Z","seenAt":"2026-01-02T03:06:05Z","cpu":0.25,"memory":24000000,"hands":0}],
		"queues":{}}`, nil}
}

// TestStatusExits checks the exit codes and what is printed.
func TestStatusExits(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answer  answer
		code    int
		out     string
		message string
	}{
		{"ok", statusIs(), exitDone, "ok: 0 problems, 1 instance\n\nINSTANCE ", ""},
		{"degraded", statusIs("sequence_missing orders", "blobs_failing"), exitDegraded,
			"degraded: 2 problems, 1 instance\n\nsequence_missing orders: It broke.\n  1 time, first 2 min ago, in a-1\n  Repair it.\n\nblobs_failing: It broke.\n  2 times, first", ""},
		{"error", appError(400, "bad_query", nil), exitFailed, "", "bad_query"},
	} {
		code, stdout, stderr := call(t, nil, "status", "--url", serving(t, tt.answer))
		if code != tt.code || !strings.HasPrefix(stdout, tt.out) || !strings.Contains(stderr, tt.message) || (stderr == "") != (tt.message == "") {
			t.Errorf("%s: code %d, standard output\n%s\nstandard error %q, want code %d and\n%s", tt.name, code, stdout, stderr, tt.code, tt.out)
		}
		code, stdout, _ = call(t, nil, "status", "--json", "--url", serving(t, tt.answer))
		if code != tt.code || strings.Count(stdout, "\n") != 1 || !json.Valid([]byte(stdout)) {
			t.Errorf("%s as JSON: code %d, %s", tt.name, code, stdout)
		}
	}
	if code, _, stderr := call(t, nil, "status", "--url", "http://127.0.0.1:1"); code != exitFailed || !strings.Contains(stderr, "cannot connect") {
		t.Errorf("no app: code %d, %s", code, stderr)
	}
}

// TestWatchStatus: a watch prints each change, or each answer as JSON, continues
// when the app does not respond, shows that it responds again, and ends by
// Ctrl+C.
func TestWatchStatus(t *testing.T) {
	broken := statusIs("blobs_failing")
	answers := []any{statusIs(), statusIs(), broken, broken, appError(400, "bad_query", nil), appError(400, "bad_query", nil), broken, statusIs("blobs_failing", "sequence_missing orders"), statusIs()}
	for _, asJSON := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 118*time.Second)
			defer cancel()
			var out, errs bytes.Buffer
			var said []string
			con := &console{stdout: &out, stderr: &errs}
			if err := con.watchStatus(ctx, appOf(t, answering(answers...), &said), asJSON); err != nil {
				t.Errorf("the watch ended with %v", err)
			}
			if strings.Count(errs.String(), "bad_query: broken; still watching") != 1 {
				t.Errorf("standard error %q, want the error once", errs.String())
			}
			if asJSON {
				if n := strings.Count(out.String(), "\n"); n != 22 {
					t.Errorf("%d lines of JSON in 118 s, want 22 and two errors", n)
				}
				return
			}
			lines := regexp.MustCompile(`(?m)^\S+Z `).ReplaceAllString(out.String(), "")
			same(t, "standard output", "ok\ndegraded: blobs_failing\ndegraded: blobs_failing\ndegraded: blobs_failing, sequence_missing orders\nok\n", lines)
		})
	}
	var said []string
	err := (&console{}).watchStatus(t.Context(), appOf(t, answering(appError(400, "bad_query", nil)), &said), false)
	expectError(t, "a watch of an app that never responds", err, "the app returned 400 bad_query: broken")
}

// TestStatusScreen checks each part of the screen, and that no text of the app
// can break it.
func TestStatusScreen(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := client.Status{
		Status: "degraded", Instance: "i00",
		Problems: []client.Problem{{Code: "gate_unreadable", Subject: "a\x1b[2Jb", What: "two\nlines", Since: at.Add(-3 * time.Hour), Count: 7,
			Instances: []string{"i00", "i01", "i02", "i03", "i04"}, Help: "Repair\tit."}},
		LeftOut:   2,
		Queues:    map[string]client.QueueStatus{"work-0": {Ready: 5, InFlight: 2, Delayed: 1, OldestSeconds: 12.4, Poison: 3}},
		Sequences: map[string]client.SequenceStatus{"orders": {Issued: 3, Available: 997, Lost: 1, Problem: "it was\ndeleted"}},
		Gates:     map[string]client.GateStatus{"hounds": {State: client.Gate{Released: true}, Waiting: 4}},
		Bill:      &client.Bill{Currency: "US\nD", Today: "0.042110", Month: "1.207541", Prices: client.Prices{Name: "list", Date: "2026-11-23"}},
	}
	for i := range 25 {
		s.Instances = append(s.Instances, client.Instance{Instance: fmt.Sprintf("i%02d", i), Kind: "functions", Version: "v1",
			StartedAt: at.Add(-72 * time.Hour), SeenAt: at.Add(-time.Duration(i) * time.Second), CPU: 0.5, Memory: 24e6, Hands: 2})
	}
	screen := (&console{stdout: &bytes.Buffer{}}).describeStatus(s)
	for _, want := range []string{
		"degraded: 1 problem, 25 instances\n\ngate_unreadable a\ufffd[2Jb: two lines\n  7 times, first 3 h ago, in i00, i01, i02 and 2 more\n  Repair it.\n",
		"INSTANCE  KIND       VERSION  STARTED     SEEN      CPU   MEMORY  HANDS\ni00       functions  v1       3 days ago  now       0.50  24 MB   2\n",
		"i19       functions  v1       3 days ago  19 s ago  0.50  24 MB   2\n… and 5 more; --json has all\n2 instances left out",
		"QUEUE   READY  IN FLIGHT  DELAYED  OLDEST  DEAD LETTERS\nwork-0  5      2          1        12 s    3\n",
		"SEQUENCE of i00  ISSUED  AVAILABLE  LOST  PROBLEM\norders           3       997        1     it was deleted\n",
		"GATE of i00  STATE     WAITERS  ERROR\nhounds       released  4        none",
		"\n\nbill: 0.042110 US D today, 1.207541 this month, for storage and Service Bus (prices list of 2026-11-23)",
	} {
		if !strings.Contains(screen, want) {
			t.Errorf("screen\n%s\nwant\n%s", screen, want)
		}
	}
	for d, want := range map[time.Duration]string{-time.Hour: "now", 4 * time.Second: "now", 90 * time.Second: "90 s ago", 3 * time.Minute: "3 min ago", 30 * time.Hour: "30 h ago"} {
		if got := ago(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// TestRelayOnScreen: an outage of Service Bus has a line, and nothing else has.
func TestRelayOnScreen(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	backlog := func(messages int64, more bool) *client.RelayBacklog {
		return &client.RelayBacklog{Messages: messages, More: more, At: at.Add(-40 * time.Second)}
	}
	for _, tt := range []struct {
		relay *client.RelayStatus
		want  string
	}{
		{nil, ""},
		{&client.RelayStatus{}, ""},
		{&client.RelayStatus{Backlog: backlog(0, false)}, ""},
		{&client.RelayStatus{Backlog: backlog(1, false)}, "1 message in the backlog, counted 40 s ago"},
		{&client.RelayStatus{FailedOver: 2, Backlog: backlog(250, true)}, "250 messages or more in the backlog, counted 40 s ago; failed over: 2"},
		{&client.RelayStatus{FailedOver: 1}, "the backlog was not counted lately; failed over: 1"},
	} {
		s := client.Status{Status: "ok", Instance: "a", Instances: []client.Instance{{Instance: "a", SeenAt: at}}, Relay: tt.relay}
		_, got, found := strings.Cut((&console{stdout: &bytes.Buffer{}}).describeStatus(s), "\n\nrelay: ")
		want := ""
		if tt.want != "" {
			want = tt.want + "; see `kennel relay status`"
		}
		if got != want || found != (want != "") {
			t.Errorf("%+v: %q, want %q", tt.relay, got, want)
		}
	}
}

// TestTableOfSome: a table states how many rows the app has not sent.
func TestTableOfSome(t *testing.T) {
	rows := make([]int, 25)
	for _, tt := range []struct {
		rows, total int
		want        string
	}{
		{20, 10_000, "… and 9980 more\n"},
		{25, 500, "… and 480 more\n"},
		{25, 25, "… and 5 more; --json has all\n"},
		{20, 0, "0\n"},
	} {
		var screen strings.Builder
		writeTable(newConsole(nil, nil, nil, io.Discard, io.Discard), &screen, "ROW", rows[:tt.rows], tt.total, func(row int) []any { return []any{row} })
		if !strings.HasSuffix(screen.String(), tt.want) {
			t.Errorf("%d of %d rows: %q, want %q at its end", tt.rows, tt.total, screen.String(), tt.want)
		}
	}
	if got := someOf([]string{"a", "b", "c", "d"}, 100); got != "a, b, c and 97 more" {
		t.Errorf("%q", got)
	}
}

// TestFit checks that a table is as narrow as its terminal, at the cost of its
// widest columns.
func TestFit(t *testing.T) {
	table := func() [][]string {
		return [][]string{{"ENTITY", "STATE", "LAST ERROR"}, {"orders-of-customers", "failed over", "the namespace does not answer"}}
	}
	for _, tt := range []struct {
		width int
		want  string
	}{
		{0, "orders-of-customers|failed over|the namespace does not answer"},
		{100, "orders-of-customers|failed over|the namespace does not answer"},
		{60, "orders-of-customers|failed over|the namespace does not an…"},
		{40, "orders-of-c…|failed over|the namespac…"},
		{10, "orders-…|failed …|the nam…"},
	} {
		rows := table()
		fit(rows, 2, tt.width)
		if got := strings.Join(rows[1], "|"); got != tt.want {
			t.Errorf("%d columns: %s, want %s", tt.width, got, tt.want)
		}
		if heading := strings.Join(rows[0], "|"); tt.width != 10 && heading != "ENTITY|STATE|LAST ERROR" {
			t.Errorf("%d columns: %s", tt.width, heading)
		}
	}
}
