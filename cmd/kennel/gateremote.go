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
	// longestAsk is how long one request waits: shorter than what lies between
	// here and the app (balancers, proxies) takes a silent connection for dead.
	longestAsk  = 55 * time.Second
	shortestAsk = time.Second

	// firstAsk is how long the first request waits. Until there is an answer,
	// there is no generation with which to come back, and a release could be
	// missed while the app is away.
	firstAsk = 2 * time.Second

	// betweenLooks is how often a released gate is looked at for its closing,
	// and how long to wait before asking again what has failed.
	betweenLooks = 2 * time.Second
)

func (g gateRemote) ask(method, rest string) ask {
	return ask{method: method, path: "/api/gates/" + g.gate + rest, accept: "application/json"}
}

// state asks how the gate is, with its history.
func (g gateRemote) state(ctx context.Context) (gate.State, error) {
	answer, err := g.send(ctx, g.ask(http.MethodGet, ""))
	if err != nil {
		return gate.State{}, err
	}
	defer answer.close()
	return g.read(answer)
}

func (g gateRemote) read(answer *answered) (gate.State, error) {
	var s gate.State
	_, err := g.readJSON(answer, &s)
	if err == nil && s.Gate != g.gate {
		err = fmt.Errorf("the app at %s answered something else than the state of a gate", g.base)
	}
	return s, err
}

// changedGate is the answer to a change.
type changedGate struct {
	gate.State
	Changed   bool
	Signalled *bool // nil: there was nothing to announce, or no Service Bus
}

// change releases or closes the gate. It may be sent again: what is done is
// not done twice.
func (g gateRemote) change(ctx context.Context, change string, o gateOptions) (c changedGate, err error) {
	g.unsure = "the gate may have been changed; see `kennel gate status " + g.gate + "`"
	body, err := json.Marshal(map[string]any{"by": o.by, "reason": o.reason, "force": o.force})
	if err != nil {
		return c, err
	}
	a := g.ask(http.MethodPost, "/"+change)
	a.body = string(body)
	answer, err := g.send(ctx, a)
	if err != nil {
		return c, err
	}
	defer answer.close()
	_, err = g.readJSON(answer, &c)
	return c, err
}

// waited is how far a wait has come.
type waited struct {
	passed bool
	seen   int64 // the generation to go on with; gate.Now while none was seen
	state  gate.State

	there   bool   // the app has answered or closed the connection
	lastErr string // printed last, about why there is no answer
}

// wait waits until the gate is released after generation seen, for at most
// limit; 0 is no limit. Once the app has taken a request, wait repeats it
// whatever becomes of the app.
func (g gateRemote) wait(ctx context.Context, seen int64, limit time.Duration) (waited, error) {
	w := waited{seen: seen, state: gate.State{Gate: g.gate}}
	began := time.Now()
	for {
		most := longestAsk
		if limit > 0 {
			left := limit - time.Since(began)
			if left <= 0 {
				return w, nil
			}
			most = max(min(left, most), shortestAsk)
		}
		if w.seen == gate.Now {
			most = min(most, firstAsk)
		}
		if err := g.waitOnce(ctx, &w, most); err != nil || w.passed {
			return w, err
		}
	}
}

// waitOnce makes one request. Its error ends the wait.
func (g gateRemote) waitOnce(ctx context.Context, w *waited, most time.Duration) error {
	rest := "/wait?timeout=" + most.Round(time.Millisecond).String()
	if w.seen != gate.Now {
		rest += "&generation=" + strconv.FormatInt(w.seen, 10)
	}
	a := g.ask(http.MethodGet, rest)
	a.takes = most
	answer, err := g.once(ctx, a)
	if err != nil {
		return g.bear(ctx, w, most, err)
	}
	defer answer.close()
	s, err := g.read(answer)
	if err != nil {
		return g.bear(ctx, w, most, err)
	}
	w.there = true
	if w.lastErr != "" {
		w.lastErr = ""
		g.say("the app answers again")
	}
	w.state = s
	w.passed = answer.StatusCode == http.StatusOK
	if w.seen == gate.Now && !w.passed {
		w.seen = s.Generation // no greater one was released before this answer
	}
	return nil
}

// bear gets over what went wrong, or returns it if waiting is of no use.
func (g gateRemote) bear(ctx context.Context, w *waited, most time.Duration, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	again := betweenLooks
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case ok && refused.status < 500 && refused.status != http.StatusTooManyRequests && refused.status != http.StatusRequestTimeout:
		return err // asked wrongly: it will not be right the next time
	case ok:
		w.there = true
		if refused.told {
			again = min(refused.after, maxBusyWait)
		}
	case brokeOff(err):
		w.there = true
	case !w.there:
		return err // most likely it is the wrong address
	}
	if w.lastErr != err.Error() {
		w.lastErr = err.Error()
		g.say("%s; waiting on", printable(w.lastErr))
	}
	return pause(ctx, min(again, most))
}

// brokeOff says that there was somebody to connect to, who then hung up
// without an answer, as an app does that is killed while one waits.
func brokeOff(err error) bool {
	broken, ok := errors.AsType[*net.OpError](err)
	return ok && broken.Op != "dial" || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// watch tells how the gate is, and then each change, until ctx ends. It sees
// changes in the history, so that none is left out.
func (g gateRemote) watch(ctx context.Context, tell func(gate.State) error) error {
	s, err := g.state(ctx)
	if err != nil {
		return err
	}
	now := s
	now.History = nil
	if err := tell(now); err != nil {
		return err
	}
	w := waited{there: true}
	for {
		// The next change of a shut gate is a release, for which one can wait;
		// a released one has to be looked at.
		w.seen, w.passed = s.Generation, false
		if s.Released {
			err = pause(ctx, betweenLooks)
		} else {
			err = g.waitOnce(ctx, &w, longestAsk)
		}
		if err != nil {
			return err
		}
		newer, err := g.state(ctx)
		if err != nil {
			if err := g.bear(ctx, &w, betweenLooks, err); err != nil {
				return err
			}
			continue
		}
		for _, changed := range changesSince(s, newer) {
			if err := tell(changed); err != nil {
				return err
			}
		}
		s = newer
	}
}

// changesSince returns the states after the changes that were not there
// before.
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
