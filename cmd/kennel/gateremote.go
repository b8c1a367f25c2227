package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"kennel/gate"
)

// gateRemote is one gate of an app.
type gateRemote struct {
	remote
	gate string
}

const (
	// maxWait and minWait limit how long one request waits. maxWait is shorter
	// than the idle timeout of load balancers and proxies before the app.
	maxWait = 55 * time.Second
	minWait = time.Second

	// maxFirstWait limits the first request. Until it is answered, there is no
	// generation to continue with, and a release could be missed while the app
	// is down.
	maxFirstWait = 2 * time.Second

	// pollInterval is how often the state of a released gate is read to detect
	// that it was closed, and the pause before a failed request is retried.
	pollInterval = 2 * time.Second
)

func (g gateRemote) request(method, rest string) request {
	return request{method: method, path: "/api/gates/" + g.gate + rest, accept: "application/json"}
}

// state reads the state of the gate with its history.
func (g gateRemote) state(ctx context.Context) (gate.State, error) {
	answer, err := g.send(ctx, g.request(http.MethodGet, ""))
	if err != nil {
		return gate.State{}, err
	}
	defer answer.close()
	return g.read(answer)
}

func (g gateRemote) read(answer *response) (gate.State, error) {
	var s gate.State
	_, err := g.readJSON(answer, &s)
	if err == nil && s.Gate != g.gate {
		err = fmt.Errorf("the app at %s did not return the state of gate %s", g.base, g.gate)
	}
	return s, err
}

// changedGate is the response to a change.
type changedGate struct {
	gate.State
	Changed   bool
	Signalled *bool // nil if nothing changed or there is no Service Bus
}

// change releases or closes the gate. It may be retried: repeating a change
// that was made has no effect.
func (g gateRemote) change(ctx context.Context, change string, o gateOptions) (c changedGate, err error) {
	g.unsure = "the gate may have been changed; see `kennel gate status " + g.gate + "`"
	body, err := json.Marshal(map[string]any{"by": o.by, "reason": o.reason, "force": o.force})
	if err != nil {
		return c, err
	}
	r := g.request(http.MethodPost, "/"+change)
	r.body = string(body)
	answer, err := g.send(ctx, r)
	if err != nil {
		return c, err
	}
	defer answer.close()
	_, err = g.readJSON(answer, &c)
	return c, err
}

// waited is the progress of a wait.
type waited struct {
	passed bool
	seen   int64 // the generation to continue with; gate.Now if still unknown
	state  gate.State

	reached bool   // the app has responded or closed the connection
	lastErr string // the last error that was printed
}

// wait waits until the gate is released after generation seen, for at most
// limit; 0 is no limit. Once the app was reached, wait retries through all
// outages.
func (g gateRemote) wait(ctx context.Context, seen int64, limit time.Duration) (waited, error) {
	w := waited{seen: seen, state: gate.State{Gate: g.gate}}
	began := time.Now()
	for {
		timeout := maxWait
		if limit > 0 {
			left := limit - time.Since(began)
			if left <= 0 {
				return w, nil
			}
			timeout = max(min(left, timeout), minWait)
		}
		if w.seen == gate.Now {
			timeout = min(timeout, maxFirstWait)
		}
		if err := g.waitOnce(ctx, &w, timeout); err != nil || w.passed {
			return w, err
		}
	}
}

// waitOnce sends one request. Its error ends the wait.
func (g gateRemote) waitOnce(ctx context.Context, w *waited, timeout time.Duration) error {
	rest := "/wait?timeout=" + timeout.Round(time.Millisecond).String()
	if w.seen != gate.Now {
		rest += "&generation=" + strconv.FormatInt(w.seen, 10)
	}
	r := g.request(http.MethodGet, rest)
	r.takes = timeout
	answer, err := g.once(ctx, r)
	if err != nil {
		return g.retryable(ctx, w, timeout, err)
	}
	defer answer.close()
	s, err := g.read(answer)
	if err != nil {
		return g.retryable(ctx, w, timeout, err)
	}
	w.reached = true
	if w.lastErr != "" {
		w.lastErr = ""
		g.say("the app responds again")
	}
	w.state = s
	w.passed = answer.StatusCode == http.StatusOK
	if w.seen == gate.Now && !w.passed {
		w.seen = s.Generation // no greater one was released before this response
	}
	return nil
}

// retryable reports a transient error, pauses for at most maxPause and returns
// nil. It returns any other error unchanged.
func (g gateRemote) retryable(ctx context.Context, w *waited, maxPause time.Duration, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	wait := pollInterval
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case ok && refused.status < 500 && refused.status != http.StatusTooManyRequests && refused.status != http.StatusRequestTimeout:
		return err // an invalid request stays invalid
	case ok:
		w.reached = true
		if refused.hasAfter {
			wait = min(refused.after, maxBusyWait)
		}
	case closedEarly(err):
		w.reached = true
	case !w.reached:
		return err // probably a wrong address
	}
	if w.lastErr != err.Error() {
		w.lastErr = err.Error()
		g.say("%s; still waiting", printable(w.lastErr))
	}
	return pause(ctx, min(wait, maxPause))
}

// closedEarly reports whether the server accepted the connection and closed it
// without a response, as an app does that is killed during a wait.
func closedEarly(err error) bool {
	broken, ok := errors.AsType[*net.OpError](err)
	return ok && broken.Op != "dial" || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// watch reports the state of the gate and then each change, until ctx ends. It
// takes the changes from the history, so that none is missed.
func (g gateRemote) watch(ctx context.Context, report func(gate.State) error) error {
	s, err := g.state(ctx)
	if err != nil {
		return err
	}
	now := s
	now.History = nil
	if err := report(now); err != nil {
		return err
	}
	w := waited{reached: true}
	for {
		// The next change of a shut gate is a release, which the app can wait
		// for. The closing of a released gate is found by polling.
		w.seen, w.passed = s.Generation, false
		if s.Released {
			err = pause(ctx, pollInterval)
		} else {
			err = g.waitOnce(ctx, &w, maxWait)
		}
		if err != nil {
			return err
		}
		newer, err := g.state(ctx)
		if err != nil {
			if err := g.retryable(ctx, &w, pollInterval, err); err != nil {
				return err
			}
			continue
		}
		for _, changed := range changesSince(s, newer) {
			if err := report(changed); err != nil {
				return err
			}
		}
		s = newer
	}
}

// changesSince returns the state after each change in the history of now that
// is not in the history of before.
func changesSince(before, now gate.State) (states []gate.State) {
	releases := now.Releases
	for _, t := range slices.Backward(now.History) {
		if len(before.History) > 0 && t.Operation == before.History[len(before.History)-1].Operation {
			break
		}
		states = append(states, gate.State{
			Gate: now.Gate, Released: t.Change == "release", Generation: t.Generation, Releases: releases,
			ChangedAt: t.At, By: t.By, Reason: t.Reason,
		})
		if t.Change == "release" {
			releases--
		}
	}
	slices.Reverse(states)
	return states
}
