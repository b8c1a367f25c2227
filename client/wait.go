package client

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"time"
)

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
	// that it was closed.
	pollInterval = 2 * time.Second
)

// Now, as the generation that a waiter has seen, means that it has seen none.
const Now = -1

// Waited is the result of a wait.
type Waited struct {
	Passed bool // the waiter may go on

	// Generation is the last one that the waiter has seen. Wait with it again,
	// to continue or for the next release: no release is missed in between. It
	// is Now if the app has not reported one.
	Generation int64

	// Gate is the newest known state. It may be closed for a waiter that passed:
	// a release has happened, and a close after it.
	Gate Gate
}

// Wait waits until a gate was released after a generation, or until it is
// released if that is [Now], for limit or until ctx ends. A limit of 0 is none.
//
// It repeats its requests with the generation of the first answer, so that no
// release is missed, even if the gate is closed again. Once the app was
// reached, it continues through restarts and outages.
//
// If the time is over, Passed is false without an error. After an error, too,
// the generation is that with which to wait again.
func (c *Client) Wait(ctx context.Context, gate string, after int64, limit time.Duration) (Waited, error) {
	w := Waited{Generation: after, Gate: Gate{Name: gate}}
	if err := checkName("gate", gate); err != nil {
		return w, err
	}
	if after < Now || limit < 0 {
		return w, invalidf("a wait for a release after generation %d, for %v; use 0 or more, or Now", after, limit)
	}
	o := &outage{c: c}
	for began := time.Now(); ; {
		timeout := maxWait
		if limit > 0 {
			left := limit - time.Since(began)
			if left <= 0 {
				return w, nil
			}
			timeout = max(min(left, timeout), minWait)
		}
		if w.Generation == Now {
			timeout = min(timeout, maxFirstWait)
		}
		if err := c.waitOnce(ctx, o, &w, timeout); err != nil || w.Passed {
			return w, err
		}
	}
}

// waitOnce sends one request. Its error ends the wait.
func (c *Client) waitOnce(ctx context.Context, o *outage, w *Waited, timeout time.Duration) error {
	name := w.Gate.Name
	query := "/wait?timeout=" + timeout.Round(time.Millisecond).String()
	if w.Generation != Now {
		query += "&generation=" + strconv.FormatInt(w.Generation, 10)
	}
	r := request{method: http.MethodGet, path: gatePath(name, query), takes: timeout}
	var g Gate
	answer, err := c.once(ctx, r)
	if err == nil {
		err = c.decode(answer, r, &g)
	}
	if err := c.expect(r, err, "the state of gate", g.Name, name); err != nil {
		return o.pause(ctx, err, timeout)
	}
	o.over()
	w.Gate, w.Passed = g, answer.status == http.StatusOK
	if w.Passed || w.Generation == Now { // otherwise a release between two answers would be missed
		w.Generation = g.Generation
	}
	return nil
}

// Watch yields the state of a gate and then each change, until ctx ends or an
// error is permanent; then it yields the error. It takes the changes from the
// history, so that none is missed, and continues through outages.
func (c *Client) Watch(ctx context.Context, gate string) iter.Seq2[Gate, error] {
	return func(yield func(Gate, error) bool) {
		g, err := c.Gate(ctx, gate)
		if err != nil {
			yield(Gate{}, err)
			return
		}
		if !yield(stateOnly(g)) {
			return
		}
		o := &outage{c: c, reached: true}
		for {
			newer, err := c.nextChange(ctx, o, g)
			if err != nil {
				yield(Gate{}, err)
				return
			}
			for _, changed := range changesSince(g, newer) {
				if !yield(stateOnly(changed)) {
					return
				}
			}
			g = newer
		}
	}
}

// nextChange waits until a gate has probably changed, and reads it. The next
// change of a closed gate is a release, which the app can wait for. The closing
// of a released gate is found by polling.
func (c *Client) nextChange(ctx context.Context, o *outage, g Gate) (Gate, error) {
	var err error
	if g.Released {
		err = pause(ctx, pollInterval)
	} else {
		err = c.waitOnce(ctx, o, &Waited{Generation: g.Generation, Gate: Gate{Name: g.Name}}, maxWait)
	}
	if err != nil {
		return Gate{}, err
	}
	for {
		newer, err := c.gateOnce(ctx, g.Name)
		if err == nil {
			o.over()
			return newer, nil
		}
		if err := o.pause(ctx, err, pollInterval); err != nil {
			return Gate{}, err
		}
	}
}

// gateOnce reads a gate without repeating the request.
func (c *Client) gateOnce(ctx context.Context, gate string) (g Gate, err error) {
	r := request{method: http.MethodGet, path: gatePath(gate, "")}
	answer, err := c.once(ctx, r)
	if err == nil {
		err = c.decode(answer, r, &g)
	}
	return g, c.expect(r, err, "the state of gate", g.Name, gate)
}

// changesSince returns the state after each change in the history of now that
// is not in the history of before.
func changesSince(before, now Gate) (states []Gate) {
	releases := now.Releases
	for _, t := range slices.Backward(now.History) {
		if len(before.History) > 0 && t.Operation == before.History[len(before.History)-1].Operation {
			break
		}
		states = append(states, Gate{
			Name: now.Name, Released: t.Change == "release", Generation: t.Generation, Releases: releases,
			ChangedAt: t.At, By: t.By, Reason: t.Reason,
		})
		if t.Change == "release" {
			releases--
		}
	}
	if len(states) == 0 && (now.Released != before.Released || now.Generation != before.Generation) {
		return []Gate{now} // its document was deleted, or restored from an old copy
	}
	slices.Reverse(states)
	return states
}

// stateOnly returns a state without its history, also in its JSON.
func stateOnly(g Gate) (Gate, error) {
	g.History = nil
	line, err := encode(g)
	g.keep(line)
	return g, err
}
