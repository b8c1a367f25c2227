package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
)

// gateIs is the app's answer on a gate.
func gateIs(status int, released bool, generation int64, more ...string) answer {
	body := fmt.Sprintf(`{"gate":"hounds","released":%t,"generation":%d,"releases":%[2]d%s}`, released, generation, strings.Join(more, ""))
	return answer{status, "application/json", body, nil}
}

func appError(status int, code string, header map[string]string) answer {
	return answer{status, "application/json", `{"error":{"code":"` + code + `","message":"so it is"}}`, header}
}

// hounds is a gate behind an app that is answering.
func hounds(asked, said *[]string, answers ...any) gateRemote {
	return gateRemote{remoteOf(answering(asked, answers...), said), "hounds"}
}

func TestGateWait(t *testing.T) {
	lost := errors.New("reset by peer")
	for _, test := range []struct {
		name    string
		seen    int64
		limit   time.Duration
		answers []any

		asked  []string
		said   []string
		passed bool
		next   int64 // the generation to go on with
		err    string
	}{
		{
			name: "released already", seen: gate.Now, answers: []any{gateIs(200, true, 4)},
			asked: []string{"GET /wait?timeout=2s"}, passed: true, next: gate.Now,
		},
		{
			name: "again and again, with what was seen", seen: gate.Now,
			answers: []any{gateIs(202, false, 4), gateIs(202, false, 4), gateIs(200, true, 5)},
			asked:   []string{"GET /wait?timeout=2s", "GET /wait?timeout=55s&generation=4", "GET /wait?timeout=55s&generation=4"},
			passed:  true, next: 4,
		},
		{
			name: "until its time is over", seen: 7, limit: 70 * time.Second,
			answers: []any{gateIs(202, true, 7)},
			asked:   []string{"GET /wait?timeout=55s&generation=7", "GET /wait?timeout=15s&generation=7"}, next: 7,
		},
		{
			name: "a generation that is still to come", seen: 9, answers: []any{gateIs(202, true, 7), gateIs(202, false, 8), gateIs(200, true, 10)},
			asked:  []string{"GET /wait?timeout=55s&generation=9", "GET /wait?timeout=55s&generation=9", "GET /wait?timeout=55s&generation=9"},
			passed: true, next: 9,
		},
		{
			name: "the gate is deleted", seen: gate.Now,
			answers: []any{gateIs(202, false, 4), gateIs(202, false, 0), gateIs(200, true, 5)},
			asked:   []string{"GET /wait?timeout=2s", "GET /wait?timeout=55s&generation=4", "GET /wait?timeout=55s&generation=4"},
			passed:  true, next: 4,
		},
		{
			name: "through trouble", seen: gate.Now,
			answers: []any{
				gateIs(202, false, 4), appError(503, "stopping", map[string]string{"Retry-After": "1"}), lost, lost, answer{502, "text/html", "<p>", nil},
				appError(500, "gate_corrupt", nil), gateIs(202, false, 4), gateIs(200, true, 5),
			},
			asked: []string{"GET /wait?timeout=2s", "GET /wait?timeout=55s&generation=4", "GET /wait?timeout=55s&generation=4", "GET /wait?timeout=55s&generation=4",
				"GET /wait?timeout=55s&generation=4", "GET /wait?timeout=55s&generation=4", "GET /wait?timeout=55s&generation=4", "GET /wait?timeout=55s&generation=4"},
			said: []string{
				"the app answered 503 stopping: so it is; waiting on", "no answer from http://app.example: reset by peer; waiting on",
				"the app at http://app.example answered 502 Bad Gateway; waiting on", "the app answered 500 gate_corrupt: so it is; waiting on", "the app answers again",
			},
			passed: true, next: 4,
		},
		{
			name: "killed before its first answer", seen: gate.Now, answers: []any{io.EOF, &net.OpError{Op: "dial", Err: lost}, gateIs(200, true, 1)},
			asked: []string{"GET /wait?timeout=2s", "GET /wait?timeout=2s", "GET /wait?timeout=2s"},
			said: []string{
				"no answer from http://app.example: EOF; waiting on", "nothing answers at http://app.example: check --url, and that the app runs (reset by peer); waiting on", "the app answers again",
			},
			passed: true, next: gate.Now,
		},
		{
			name: "reset before its first answer", seen: gate.Now, answers: []any{&net.OpError{Op: "read", Err: lost}, gateIs(200, true, 1)},
			asked: []string{"GET /wait?timeout=2s", "GET /wait?timeout=2s"},
			said:  []string{"no answer from http://app.example: read: reset by peer; waiting on", "the app answers again"}, passed: true, next: gate.Now,
		},
		{name: "wrong address", seen: gate.Now, answers: []any{&net.OpError{Op: "dial", Err: lost}}, asked: []string{"GET /wait?timeout=2s"}, next: gate.Now, err: "nothing answers"},
		{name: "no app", seen: gate.Now, answers: []any{lost}, asked: []string{"GET /wait?timeout=2s"}, next: gate.Now, err: "no answer from"},
		{name: "asked wrongly", seen: gate.Now, answers: []any{appError(400, "bad_gate", nil)}, asked: []string{"GET /wait?timeout=2s"}, next: gate.Now, err: "400 bad_gate"},
		{name: "another gate's state", seen: gate.Now, answers: []any{answer{200, "application/json", `{"gate":"cats","released":true}`, nil}},
			asked: []string{"GET /wait?timeout=2s"}, next: gate.Now, err: "something else"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked, said []string
				w, err := hounds(&asked, &said, test.answers...).wait(t.Context(), test.seen, test.limit)
				expectError(t, "wait", err, test.err)
				if w.passed != test.passed || w.seen != test.next {
					t.Errorf("passed %t, to go on with %d, want %t and %d", w.passed, w.seen, test.passed, test.next)
				}
				same(t, "asked", test.asked, asked)
				same(t, "said", test.said, said)
			})
		})
	}
}

func TestGateWatch(t *testing.T) {
	const (
		first  = `{"change":"release","generation":1,"at":"2026-01-01T00:00:00Z","by":"ann","operation":"A"}`
		second = `{"change":"close","generation":1,"at":"2026-01-02T00:00:00Z","by":"bob","reason":"lunch","operation":"B"}`
		third  = `{"change":"release","generation":2,"at":"2026-01-03T00:00:00Z","by":"ann","operation":"C"}`
	)
	history := func(entries ...string) string { return `,"history":[` + strings.Join(entries, ",") + `]` }
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var asked, said, told []string
		g := hounds(&asked, &said,
			gateIs(200, false, 0),                        // as it is
			gateIs(202, false, 0), gateIs(200, false, 0), // nothing new
			gateIs(200, true, 1),                                // waited for
			gateIs(200, true, 1, history(first)),                // and looked at
			appError(500, "gate_corrupt", nil),                  // looked at, in vain
			gateIs(200, true, 2, history(first, second, third)), // two at once
			gateIs(200, true, 2, history(first, second, third))) // from now on
		err := g.watch(ctx, func(s gate.State) error {
			told = append(told, describeGate(s))
			if len(told) == 4 {
				cancel()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("watch ended with %v, want the context's error", err)
		}
		want := []string{
			"hounds is shut, and has never been released",
			"hounds is released (release 1, generation 1) since 2026-01-01T00:00:00Z by ann",
			"hounds is shut (release 1, generation 1) since 2026-01-02T00:00:00Z by bob: lunch",
			"hounds is released (release 2, generation 2) since 2026-01-03T00:00:00Z by ann",
		}
		same(t, "told", want, told)
		same(t, "said", []string{"the app answered 500 gate_corrupt: so it is; waiting on"}, said)
	})
}

func TestGateChange(t *testing.T) {
	var sent string
	app := remoteOf(func(r *http.Request) (answer, error) {
		body, err := io.ReadAll(r.Body)
		sent = r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(body)
		return gateIs(200, true, 3, `,"changed":true,"signalled":false`), err
	}, nil)
	c, err := gateRemote{app, "hounds"}.change(t.Context(), "release", gateOptions{by: "ann", reason: "warm", force: true})
	if err != nil || !c.Changed || !c.Released || c.Generation != 3 || c.Signalled == nil || *c.Signalled {
		t.Errorf("got %+v, %v", c, err)
	}
	if want := `POST /api/gates/hounds/release application/json {"by":"ann","force":true,"reason":"warm"}`; sent != want {
		t.Errorf("sent %s, want %s", sent, want)
	}
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
		state gate.State
		want  string
	}{
		{gate.State{Gate: "a", ChangedAt: at, By: "ann"}, "a is shut (release 0, generation 0) since 2026-01-02T02:04:05Z by ann"},
		{gate.State{Gate: "a", Released: true, Generation: 7, Releases: 2}, "a is released (release 2, generation 7)"},
		{gate.State{Gate: "a", Released: true, Generation: 7, Releases: 2, ChangedAt: at, By: "\x1b[31mann", Reason: "one\n two"},
			"a is released (release 2, generation 7) since 2026-01-02T02:04:05Z by \ufffd[31mann: one two"},
	} {
		if got := describeGate(test.state); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
