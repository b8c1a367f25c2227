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

// gateIs is the app's response with the state of a gate.
func gateIs(status int, released bool, generation int64, more ...string) answer {
	body := fmt.Sprintf(`{"gate":"hounds","released":%t,"generation":%d,"releases":%[2]d%s}`, released, generation, strings.Join(more, ""))
	return answer{status, "application/json", body, nil}
}

func appError(status int, code string, header map[string]string) answer {
	return answer{status, "application/json", `{"error":{"code":"` + code + `","message":"broken"}}`, header}
}

// hounds returns a gate of an app that returns the answers.
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
		next   int64 // the generation to continue with
		err    string
	}{
		{
			name: "already released", seen: gate.Now, answers: []any{gateIs(200, true, 4)},
			asked: []string{"GET /wait?timeout=2s"}, passed: true, next: gate.Now,
		},
		{
			name: "repeated with the generation that was seen", seen: gate.Now,
			answers: []any{gateIs(202, false, 4), gateIs(202, false, 4), gateIs(200, true, 5)},
			asked:   []string{"GET /wait?timeout=2s", "GET /wait?timeout=55s&generation=4", "GET /wait?timeout=55s&generation=4"},
			passed:  true, next: 4,
		},
		{
			name: "until its timeout", seen: 7, limit: 70 * time.Second,
			answers: []any{gateIs(202, true, 7)},
			asked:   []string{"GET /wait?timeout=55s&generation=7", "GET /wait?timeout=15s&generation=7"}, next: 7,
		},
		{
			name: "a generation in the future", seen: 9, answers: []any{gateIs(202, true, 7), gateIs(202, false, 8), gateIs(200, true, 10)},
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
			name: "through outages", seen: gate.Now,
			answers: []any{
				gateIs(202, false, 4), appError(503, "stopping", map[string]string{"Retry-After": "1"}), lost, lost, answer{502, "text/html", "<p>", nil},
				appError(500, "gate_corrupt", nil), gateIs(202, false, 4), gateIs(200, true, 5),
			},
			asked: []string{"GET /wait?timeout=2s", "GET /wait?timeout=55s&generation=4", "GET /wait?timeout=55s&generation=4", "GET /wait?timeout=55s&generation=4",
				"GET /wait?timeout=55s&generation=4", "GET /wait?timeout=55s&generation=4", "GET /wait?timeout=55s&generation=4", "GET /wait?timeout=55s&generation=4"},
			said: []string{
				"the app returned 503 stopping: broken; still waiting", "no response from http://app.example: reset by peer; still waiting",
				"the app at http://app.example returned 502 Bad Gateway; still waiting", "the app returned 500 gate_corrupt: broken; still waiting", "the app responds again",
			},
			passed: true, next: 4,
		},
		{
			name: "killed before its first answer", seen: gate.Now, answers: []any{io.EOF, &net.OpError{Op: "dial", Err: lost}, gateIs(200, true, 1)},
			asked: []string{"GET /wait?timeout=2s", "GET /wait?timeout=2s", "GET /wait?timeout=2s"},
			said: []string{
				"no response from http://app.example: EOF; still waiting", "cannot connect to http://app.example: reset by peer; check --url and that the app is running; still waiting", "the app responds again",
			},
			passed: true, next: gate.Now,
		},
		{
			name: "reset before its first answer", seen: gate.Now, answers: []any{&net.OpError{Op: "read", Err: lost}, gateIs(200, true, 1)},
			asked: []string{"GET /wait?timeout=2s", "GET /wait?timeout=2s"},
			said:  []string{"no response from http://app.example: read: reset by peer; still waiting", "the app responds again"}, passed: true, next: gate.Now,
		},
		{name: "wrong address", seen: gate.Now, answers: []any{&net.OpError{Op: "dial", Err: lost}}, asked: []string{"GET /wait?timeout=2s"}, next: gate.Now, err: "cannot connect to"},
		{name: "no app", seen: gate.Now, answers: []any{lost}, asked: []string{"GET /wait?timeout=2s"}, next: gate.Now, err: "no response from"},
		{name: "invalid request", seen: gate.Now, answers: []any{appError(400, "bad_gate", nil)}, asked: []string{"GET /wait?timeout=2s"}, next: gate.Now, err: "400 bad_gate"},
		{name: "another gate's state", seen: gate.Now, answers: []any{answer{200, "application/json", `{"gate":"cats","released":true}`, nil}},
			asked: []string{"GET /wait?timeout=2s"}, next: gate.Now, err: "did not return the state of gate hounds"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked, said []string
				w, err := hounds(&asked, &said, test.answers...).wait(t.Context(), test.seen, test.limit)
				expectError(t, "wait", err, test.err)
				if w.passed != test.passed || w.seen != test.next {
					t.Errorf("passed %t, continues with %d, want %t and %d", w.passed, w.seen, test.passed, test.next)
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
		var asked, said, reported []string
		g := hounds(&asked, &said,
			gateIs(200, false, 0),                        // first state
			gateIs(202, false, 0), gateIs(200, false, 0), // no change
			gateIs(200, true, 1),                                // released during a wait
			gateIs(200, true, 1, history(first)),                // state after the release
			appError(500, "gate_corrupt", nil),                  // failed read
			gateIs(200, true, 2, history(first, second, third)), // two changes at once
			gateIs(200, true, 2, history(first, second, third))) // no further change
		err := g.watch(ctx, func(s gate.State) error {
			reported = append(reported, describeGate(s))
			if len(reported) == 4 {
				cancel()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("watch ended with %v, want the context's error", err)
		}
		want := []string{
			"hounds is closed, and has never been released",
			"hounds is released (release 1, generation 1) since 2026-01-01T00:00:00Z by ann",
			"hounds is closed (release 1, generation 1) since 2026-01-02T00:00:00Z by bob: lunch",
			"hounds is released (release 2, generation 2) since 2026-01-03T00:00:00Z by ann",
		}
		same(t, "reported", want, reported)
		same(t, "said", []string{"the app returned 500 gate_corrupt: broken; still waiting"}, said)
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
		{gate.State{Gate: "a", ChangedAt: at, By: "ann"}, "a is closed (release 0, generation 0) since 2026-01-02T02:04:05Z by ann"},
		{gate.State{Gate: "a", Released: true, Generation: 7, Releases: 2}, "a is released (release 2, generation 7)"},
		{gate.State{Gate: "a", Released: true, Generation: 7, Releases: 2, ChangedAt: at, By: "\x1b[31mann", Reason: "one\n two"},
			"a is released (release 2, generation 7) since 2026-01-02T02:04:05Z by \ufffd[31mann: one two"},
	} {
		if got := describeGate(test.state); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
