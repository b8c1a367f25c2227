package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

func TestWait(t *testing.T) {
	const first, later = "GET /gates/hounds/wait?timeout=2s", "GET /gates/hounds/wait?timeout=55s&generation="
	dial := &net.OpError{Op: "dial", Err: errReset}
	for _, test := range []struct {
		name    string
		after   int64
		limit   time.Duration
		answers []any

		asked  []string
		said   []string
		passed bool
		next   int64 // the generation to continue with
		err    string
	}{
		{
			name: "already released", after: client.Now, answers: []any{gateIs(200, true, 4)},
			asked: []string{first}, passed: true, next: 4,
		},
		{
			name: "repeated with the generation that was seen", after: client.Now,
			answers: []any{gateIs(202, false, 4), gateIs(202, false, 4), gateIs(200, true, 5)},
			asked:   []string{first, later + "4", later + "4"}, passed: true, next: 5,
		},
		{
			name: "until its timeout", after: 7, limit: 70 * time.Second, answers: []any{gateIs(202, true, 7)},
			asked: []string{later + "7", "GET /gates/hounds/wait?timeout=15s&generation=7"}, next: 7,
		},
		{
			name: "a generation in the future", after: 9, answers: []any{gateIs(202, true, 7), gateIs(202, false, 8), gateIs(200, true, 10)},
			asked: []string{later + "9", later + "9", later + "9"}, passed: true, next: 10,
		},
		{
			name: "the gate is deleted", after: client.Now, answers: []any{gateIs(202, false, 4), gateIs(202, false, 0), gateIs(200, true, 5)},
			asked: []string{first, later + "4", later + "4"}, passed: true, next: 5,
		},
		{
			name: "through outages", after: client.Now,
			answers: []any{
				gateIs(202, false, 4), appError(503, "stopping", after("1")), errReset, errReset, dial, answer{502, "text/html", "<p>", nil}, answer{500, "", "", nil},
				appError(500, "gate_corrupt", nil), gateIs(202, false, 4), gateIs(200, true, 5),
			},
			asked: append([]string{first}, slices.Repeat([]string{later + "4"}, 9)...),
			said: []string{
				"the app returned 503 stopping: broken; still waiting", "no response from http://app.example: reset by peer; still waiting",
				"cannot connect to http://app.example: reset by peer; check the address and that the app is running; still waiting",
				"the app at http://app.example returned 502 Bad Gateway; still waiting", "the app at http://app.example returned 500 Internal Server Error; still waiting",
				"the app returned 500 gate_corrupt: broken; still waiting", "the app responds again",
			},
			passed: true, next: 5,
		},
		{
			name: "killed before its first answer", after: client.Now, answers: []any{io.EOF, dial, gateIs(200, true, 1)},
			asked: []string{first, first, first},
			said: []string{
				"no response from http://app.example: EOF; still waiting",
				"cannot connect to http://app.example: reset by peer; check the address and that the app is running; still waiting", "the app responds again",
			},
			passed: true, next: 1,
		},
		{
			name: "reset before its first answer", after: client.Now, answers: []any{&net.OpError{Op: "read", Err: errReset}, gateIs(200, true, 1)},
			asked: []string{first, first},
			said:  []string{"no response from http://app.example: read: reset by peer; still waiting", "the app responds again"}, passed: true, next: 1,
		},
		{name: "wrong address", after: client.Now, answers: []any{dial}, asked: []string{first}, next: client.Now, err: "cannot connect to"},
		{name: "no app", after: client.Now, answers: []any{errReset}, asked: []string{first}, next: client.Now, err: "no response from"},
		{name: "invalid request", after: client.Now, answers: []any{appError(400, "bad_gate", nil)}, asked: []string{first}, next: client.Now, err: "400 bad_gate"},
		{
			name: "invalid request, later", after: client.Now, answers: []any{gateIs(202, false, 4), answer{401, "", "", nil}},
			asked: []string{first, later + "4"}, next: 4, err: "function key (401)",
		},
		{name: "a state of another gate", after: client.Now, answers: []any{ok(`{"gate":"cats","released":true}`)},
			asked: []string{first}, next: client.Now, err: `not the state of gate "hounds"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, c := playing(t, test.answers...)
				w, err := c.Wait(t.Context(), "hounds", test.after, test.limit)
				expectError(t, "wait", err, test.err)
				if w.Passed != test.passed || w.Generation != test.next || w.Gate.Name != "hounds" {
					t.Errorf("got %+v, want passed %t, continue with %d", w, test.passed, test.next)
				}
				same(t, "asked", test.asked, a.asked)
				same(t, "said", test.said, a.said)
			})
		})
	}
}

// TestWaitEnds checks that a caller whose context ends can continue its wait,
// during a request and during an outage.
func TestWaitEnds(t *testing.T) {
	for name, last := range map[string]any{"request": gateIs(202, false, 4), "outage": io.EOF} {
		synctest.Test(t, func(t *testing.T) {
			_, c := playing(t, gateIs(202, false, 4), last)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			w, err := c.Wait(ctx, "hounds", client.Now, 0)
			if !errors.Is(err, context.DeadlineExceeded) || w.Generation != 4 || w.Passed {
				t.Errorf("%s: got %+v, %v", name, w, err)
			}
		})
	}
}

func TestWatch(t *testing.T) {
	const (
		first  = `{"change":"release","generation":1,"at":"2026-01-01T00:00:00Z","by":"ann","reason":"","operation":"A"}`
		second = `{"change":"close","generation":1,"at":"2026-01-02T00:00:00Z","by":"bob","reason":"a < b","operation":"B"}`
		third  = `{"change":"release","generation":2,"at":"2026-01-03T00:00:00Z","by":"ann","reason":"","operation":"C"}`
	)
	history := func(entries ...string) string { return `,"history":[` + strings.Join(entries, ",") + `]` }
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a, c := playing(t,
			gateIs(200, false, 0),                        // first state
			gateIs(202, false, 0), gateIs(200, false, 0), // no change
			gateIs(200, true, 1),                                // released during a wait
			gateIs(200, true, 1, history(first)),                // state after the release
			appError(500, "gate_corrupt", nil),                  // failed read
			gateIs(200, true, 2, history(first, second, third)), // two changes at once
			gateIs(200, true, 2, history(first, second, third)), // no further change
			gateIs(200, false, 0))                               // the document was deleted
		var states []string
		var last error
		for g, err := range c.Watch(ctx, "hounds") {
			if err != nil {
				last = err
				continue
			}
			if states = append(states, string(g.JSON())); len(states) == 5 {
				cancel()
			}
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("the watch ended with %v, want the context's error", last)
		}
		same(t, "states", []string{
			`{"gate":"hounds","released":false,"generation":0,"releases":0}`,
			`{"gate":"hounds","released":true,"generation":1,"releases":1,"changedAt":"2026-01-01T00:00:00Z","by":"ann"}`,
			`{"gate":"hounds","released":false,"generation":1,"releases":1,"changedAt":"2026-01-02T00:00:00Z","by":"bob","reason":"a < b"}`,
			`{"gate":"hounds","released":true,"generation":2,"releases":2,"changedAt":"2026-01-03T00:00:00Z","by":"ann"}`,
			`{"gate":"hounds","released":false,"generation":0,"releases":0}`,
		}, states)
		same(t, "said", []string{"the app returned 500 gate_corrupt: broken; still waiting", "the app responds again"}, a.said)
	})
	_, c := playing(t, appError(400, "bad_gate", nil))
	for _, err := range c.Watch(t.Context(), "hounds") {
		expectError(t, "watch", err, "bad_gate")
	}
}

func TestWatchDeletion(t *testing.T) {
	record := func(state string, deleted int) answer {
		return ok(fmt.Sprintf(`{"channel":"news","incarnation":"1","state":%q,"deleted":%d}`, state, deleted))
	}
	running := client.Deletion{Channel: "news", Incarnation: "1", State: client.Running, Deleted: 1000}
	for _, test := range []struct {
		name    string
		begin   client.Deletion
		answers []any
		deleted []int64 // of each record
		said    []string
		err     string
	}{
		{"done before", client.Deletion{State: client.Done, Deleted: 5}, []any{errReset}, []int64{5}, nil, ""},
		{"done at once", running, []any{record("done", 3000)}, []int64{1000, 3000}, nil, ""},
		{"outages", running, []any{errReset, errReset, appError(503, "storage_unavailable", nil), record("running", 2000), record("done", 3000)},
			[]int64{1000, 1000, 1000, 1000, 2000, 3000},
			[]string{"no response from http://app.example: reset by peer; still waiting", "the app returned 503 storage_unavailable: broken; still waiting", "the app responds again"}, ""},
		{"the record was deleted", running, []any{record("running", 2000), appError(404, "deletion_not_found", nil)}, []int64{1000, 2000, 2000}, nil, "404 deletion_not_found"},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, c := playing(t, test.answers...)
			var deleted []int64
			var last error
			for d, err := range c.WatchDeletion(t.Context(), test.begin) {
				deleted, last = append(deleted, d.Deleted), err
			}
			expectError(t, test.name, last, test.err)
			same(t, test.name, test.deleted, deleted)
			same(t, test.name, test.said, a.said)
		})
	}
}
