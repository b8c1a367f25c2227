package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

// gateIs is the app's response with the state of a gate.
func gateIs(status int, released bool, generation int64, more ...string) answer {
	body := fmt.Sprintf(`{"gate":"hounds","released":%t,"generation":%d,"releases":%[2]d%s}`, released, generation, strings.Join(more, ""))
	return answer{status, "application/json", body, nil}
}

// TestWaitAtGate checks what a wait prints: on standard output only what is
// known when it ends.
func TestWaitAtGate(t *testing.T) {
	corrupt := appError(500, "gate_corrupt", nil)
	for _, tt := range []struct {
		name    string
		answers []any
		json    bool
		limit   time.Duration
		stop    time.Duration // Ctrl+C; 0: none
		takes   time.Duration // 0: any

		stdout string
		said   []string
		err    string
		state  string // of a wait that was too late
	}{
		{name: "released", answers: []any{gateIs(200, true, 4)}, stdout: "hounds is released (release 4, generation 4)\n"},
		{name: "released, as JSON", answers: []any{gateIs(200, true, 4)}, json: true, stdout: string(gateIs(200, true, 4).body) + "\n"},
		{
			name: "released and closed again", answers: []any{gateIs(200, false, 5)},
			stdout: "hounds was released, and is closed again (release 5, generation 5)\n",
		},
		{
			name: "closed until the end", answers: []any{gateIs(202, false, 4)}, limit: time.Minute,
			stdout: "hounds is closed (release 4, generation 4)\n", err: "not released within 1m0s; to continue this wait, use --generation 4",
		},
		{
			name: "closed until the end, as JSON", answers: []any{gateIs(202, false, 4)}, limit: time.Minute, json: true,
			err: "not released within 1m0s; to continue", state: gateIs(202, false, 4).body,
		},
		{
			name: "not readable at the end", answers: []any{gateIs(202, false, 4), corrupt}, limit: 10 * time.Second,
			said: []string{"the app returned 500 gate_corrupt: broken; still waiting"},
			err:  "not released within 10s as far as is known: the app returned 500 gate_corrupt: broken; to continue this wait, use --generation 4",
		},
		{
			name: "never readable", answers: []any{corrupt}, limit: 10 * time.Second, json: true,
			said: []string{"the app returned 500 gate_corrupt: broken; still waiting"},
			err:  "not released within 10s as far as is known: the app returned 500 gate_corrupt: broken",
		},
		{
			name: "no answer at the end", answers: []any{gateIs(202, false, 4), errHangs}, limit: 10 * time.Second, takes: 15 * time.Second,
			err: "not released within 10s as far as is known: no response from http://app.example; to continue this wait, use --generation 4",
		},
		{
			name: "readable again", answers: []any{corrupt, gateIs(202, false, 4), gateIs(200, true, 5)},
			said:   []string{"the app returned 500 gate_corrupt: broken; still waiting", "the app responds again"},
			stdout: "hounds is released (release 5, generation 5)\n",
		},
		{
			name: "Ctrl+C", answers: []any{gateIs(202, false, 4)}, stop: 5 * time.Second,
			err: "context canceled; to continue this wait, use --generation 4",
		},
		{
			name: "Ctrl+C before an answer", answers: []any{errHangs}, stop: 5 * time.Second,
			err: "context canceled",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.stop > 0 {
					time.AfterFunc(tt.stop, cancel)
				}
				var out bytes.Buffer
				var said []string
				con := &console{stdout: &out}
				o := gateOptions{generation: client.Now, timeout: tt.limit, target: target{asJSON: tt.json}}
				began := time.Now()
				err := waitAtGate(ctx, con, appOf(t, answering(tt.answers...), &said), "hounds", o)
				expectError(t, "wait", err, tt.err)
				if tt.stop > 0 && !strings.HasPrefix(err.Error(), "context canceled") {
					t.Errorf("%v: want only that it was interrupted", err)
				}
				same(t, "standard output", tt.stdout, out.String())
				same(t, "said", tt.said, said)
				if takes := time.Since(began); tt.takes > 0 && takes != tt.takes {
					t.Errorf("the wait took %v, want %v", takes, tt.takes)
				}
				late, _ := errors.AsType[tooLate](err)
				same(t, "state", tt.state, string(late.state))
			})
		})
	}
}

func TestWatchGate(t *testing.T) {
	const first = `{"change":"release","generation":1,"at":"2026-01-01T00:00:00Z","by":"ann","operation":"A"}`
	history := `,"history":[` + first + `]`
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var out bytes.Buffer
		var said []string
		app := appOf(t, answering(gateIs(200, false, 0), gateIs(200, true, 1), gateIs(200, true, 1, history)), &said)
		if err := watchGate(ctx, &console{stdout: &out}, app, "hounds", gateOptions{}); err != nil {
			t.Errorf("the watch ended with %v", err)
		}
		same(t, "standard output", "hounds is closed, and has never been released\n"+
			"hounds is released (release 1, generation 1) since 2026-01-01T00:00:00Z by ann\n", out.String())
	})
}

func TestChangeGate(t *testing.T) {
	var sent string
	var said []string
	app := appOf(t, func(r *http.Request) (answer, error) {
		body, err := io.ReadAll(r.Body)
		sent = r.Method + " " + r.URL.Path + " " + string(body)
		return gateIs(200, true, 3, `,"changed":true,"signalled":false`), err
	}, &said)
	var out, errs bytes.Buffer
	o := gateOptions{yes: true, by: "ann", reason: "warm", force: true}
	if err := releaseGate(t.Context(), &console{stdout: &out, stderr: &errs}, app, "hounds", o); err != nil {
		t.Fatal(err)
	}
	same(t, "sent", `POST /api/gates/hounds/release {"by":"ann","reason":"warm","force":true}`, sent)
	same(t, "standard output", "hounds is released (release 3, generation 3)\n", out.String())
	if !strings.Contains(errs.String(), "the signal could not be sent") {
		t.Errorf("standard error %q, want a warning about the signal", errs.String())
	}
}

// TestUnclearChange checks that a lost answer names the command that shows what
// happened.
func TestUnclearChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		app := appOf(t, answering(appError(503, "change_unclear", nil)), &said)
		app.lookup = "kennel gate status hounds"
		err := closeGate(t.Context(), &console{}, app, "hounds", gateOptions{})
		expectError(t, "close", err, "the app returned 503 change_unclear: broken; see `kennel gate status hounds`")
	})
}

func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, " yes ": true, "n\n": false, "\n": false, "": false, "yesterday\n": false} {
		con := &console{stdin: strings.NewReader(answer), stderr: io.Discard}
		if err := con.confirm(t.Context(), "Release?", "not released"); (err == nil) != want {
			t.Errorf("%q: %v, want yes: %t", answer, err, want)
		}
	}
}

func TestDescribeGate(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	for _, test := range []struct {
		state client.Gate
		want  string
	}{
		{client.Gate{Name: "a", ChangedAt: at, By: "ann"}, "a is closed (release 0, generation 0) since 2026-01-02T02:04:05Z by ann"},
		{client.Gate{Name: "a", Released: true, Generation: 7, Releases: 2}, "a is released (release 2, generation 7)"},
		{client.Gate{Name: "a", Released: true, Generation: 7, Releases: 2, ChangedAt: at, By: "\x1b[31mann", Reason: "one\n two"},
			"a is released (release 2, generation 7) since 2026-01-02T02:04:05Z by \ufffd[31mann: one two"},
	} {
		if got := describeGate(test.state); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
