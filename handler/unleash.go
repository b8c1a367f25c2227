package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kennel/gate"
	"kennel/internal/customhandler"
)

// unleash is the HTTP side of the gates.
type unleash struct {
	gates    *gate.Gates
	signedIn bool // the platform says who calls
}

const (
	defaultWait = 30 * time.Second
	shortestFor = time.Second // a wait shorter than that would end before storage has answered

	// unnamed is who changes a gate without saying so.
	unnamed = "somebody unnamed"
)

// changeAnswer is the state of a gate that was to be changed.
type changeAnswer struct {
	gate.State
	Changed bool `json:"changed"` // false: it was like that already

	// Signalled reports whether other instances were sent a signal. It is
	// absent if there was nothing to announce, or no Service Bus.
	Signalled *bool `json:"signalled,omitempty"`
}

// state serves GET /api/gates/{gate}: its state and history.
func (u unleash) state() http.Handler {
	return handle(func(r *http.Request, name string) (int, any, error) {
		s, err := u.gates.State(r.Context(), name)
		return http.StatusOK, s, err
	})
}

// release serves POST /api/gates/{gate}/release, and shut serves …/close, with
// a body {"reason":"…","by":"…","force":false} that may be left out.
func (u unleash) release() http.Handler { return u.change((*gate.Gates).Release) }

func (u unleash) shut() http.Handler { return u.change((*gate.Gates).Close) }

func (u unleash) change(do func(*gate.Gates, context.Context, string, gate.Change) (gate.Changed, error)) http.Handler {
	return handle(func(r *http.Request, name string) (int, any, error) {
		c, err := u.readChange(r)
		if err != nil {
			return 0, nil, err
		}
		done, err := do(u.gates, r.Context(), name, c)
		if err != nil {
			return 0, nil, err
		}
		answer := changeAnswer{State: done.State, Changed: done.Changed}
		answer.History = nil
		if done.Signalled || done.SignalErr != nil {
			answer.Signalled = &done.Signalled
		}
		return http.StatusOK, answer, nil
	})
}

// wait serves GET /api/gates/{gate}/wait?generation=G&timeout=30s: 200 once
// the gate has been released after generation G, or without one once it is
// found released; 202 when the time is over, to come back with the generation
// in the answer.
func (u unleash) wait() http.Handler {
	return handle(func(r *http.Request, name string) (int, any, error) {
		after, err := generationOf(r)
		if err != nil {
			return 0, nil, err
		}
		limit, err := timeoutOf(r)
		if err != nil {
			return 0, nil, err
		}
		if deadline, ok := r.Context().Deadline(); ok {
			// The caller of an invocation that may not last that long comes back
			// sooner, instead of hearing that it has failed.
			limit = max(min(limit, time.Until(deadline)*9/10), time.Millisecond)
		}
		waited, err := u.gates.Wait(r.Context(), name, after, limit)
		if err != nil {
			return 0, nil, err
		}
		waited.State.History = nil
		if !waited.Passed {
			return http.StatusAccepted, waited.State, nil
		}
		return http.StatusOK, waited.State, nil
	})
}

// handle turns what a gate has to say into an answer.
func handle(serve func(r *http.Request, name string) (status int, answer any, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("gate")
		if err := gate.CheckName(name); err != nil {
			refuse(w, r, badRequest("bad_gate", err.Error()))
			return
		}
		status, answer, err := serve(r, name)
		if err != nil {
			refuse(w, r, err)
			return
		}
		w.Header()["Cache-Control"] = noStore // a state that somebody has kept is worse than none
		writeJSON(w, status, answer)
	})
}

// noStore is a value of a header that every answer shares.
var noStore = []string{"no-store"}

// writeJSON writes an answer.
func writeJSON(w http.ResponseWriter, status int, answer any) {
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.Encode(answer)
}

// readChange reads the body, and who sends it.
func (u unleash) readChange(r *http.Request) (gate.Change, error) {
	var body struct {
		By     string `json:"by"`
		Reason string `json:"reason"`
		Force  bool   `json:"force"`
	}
	if customhandler.HasBody(r) {
		if err := customhandler.ReadJSON(r, maxBody, &body); err != nil {
			return gate.Change{}, err
		}
	}
	return gate.Change{By: u.caller(r, body.By), Reason: body.Reason, Force: body.Force}, nil
}

// caller says who calls. Where the platform signs people in, its word counts,
// and nobody else can pass for one of them.
func (u unleash) caller(r *http.Request, says string) string {
	says = cmp.Or(strings.TrimSpace(says), unnamed)
	if !u.signedIn {
		return says
	}
	signed := cmp.Or(r.Header.Get("X-MS-CLIENT-PRINCIPAL-NAME"), r.Header.Get("X-MS-CLIENT-PRINCIPAL-ID"), "not signed in: "+says)
	runes := []rune(strings.ToValidUTF8(signed, "?"))
	return string(runes[:min(len(runes), gate.MaxBy)])
}

func generationOf(r *http.Request) (int64, error) {
	if !hasQuery(r, "generation") {
		return gate.Now, nil
	}
	n, err := strconv.ParseInt(customhandler.Query(r, "generation"), 10, 64)
	if err != nil || n < 0 || n > gate.MaxGeneration {
		return 0, badRequest("bad_generation",
			fmt.Sprintf("generation must be a whole number from 0 to %d: the one in the state that you have seen; leave it out to pass a gate that is released now", int64(gate.MaxGeneration)))
	}
	return n, nil
}

func timeoutOf(r *http.Request) (time.Duration, error) {
	if !hasQuery(r, "timeout") {
		return defaultWait, nil
	}
	d, err := time.ParseDuration(customhandler.Query(r, "timeout"))
	if err != nil || d < shortestFor || d > gate.MaxWait {
		return 0, badRequest("bad_timeout",
			fmt.Sprintf("timeout must be a time with its unit from %v to %.0fs, such as %v; to wait for longer, come back", shortestFor, gate.MaxWait.Seconds(), defaultWait))
	}
	return d, nil
}

// hasQuery says that a parameter is there, were it empty.
func hasQuery(r *http.Request, name string) bool {
	for key := range r.URL.Query() {
		if strings.EqualFold(key, name) {
			return true
		}
	}
	return false
}

func badRequest(code, message string) error {
	return &customhandler.Error{Status: http.StatusBadRequest, Code: code, Message: message}
}

// refuse is where the errors of gates become answers. The log gets what callers
// are not told, too: the store's own words.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	answer := func(status int, code, message string) {
		customhandler.WriteError(w, r, fmt.Errorf("%w: %w", err, &customhandler.Error{Status: status, Code: code, Message: message}))
	}
	switch {
	case r.Context().Err() == context.Canceled:
		// Waiters go away every day, and nobody reads this.
		answer(http.StatusRequestTimeout, "gone", "the caller has gone away")
	case errors.Is(err, gate.ErrStopped):
		sendAway(w)
	case errors.Is(err, gate.ErrInvalid):
		answer(http.StatusBadRequest, "bad_change", err.Error())
	case errors.Is(err, gate.ErrCorrupt):
		answer(http.StatusInternalServerError, "gate_corrupt",
			`what is stored for this gate cannot be used, so it stays shut until an operator has put it right; the log says what is wrong with it, and a release or close with "force":true replaces it`)
	case errors.Is(err, gate.ErrTooMany):
		w.Header().Set("Retry-After", "60")
		answer(http.StatusServiceUnavailable, "too_many_gates", "this instance watches as many different gates as it can")
	case errors.Is(err, gate.ErrUnclear):
		w.Header().Set("Retry-After", "5")
		answer(http.StatusServiceUnavailable, "change_unclear",
			"storage has not said whether the gate was changed: it may be, or may not; asking again does no harm")
	case errors.Is(err, gate.ErrUnknown):
		w.Header().Set("Retry-After", "5")
		answer(http.StatusServiceUnavailable, "storage_unavailable",
			"storage does not tell the state of this gate, so nobody passes and nothing was changed; send the request again later")
	default: // what the caller should read is in it, or nothing is
		customhandler.WriteError(w, r, err)
	}
}

// sendAway answers those who wait when this instance stops. There may be
// thousands of them, and nothing is wrong: the log hears nothing.
func sendAway(w http.ResponseWriter) {
	w.Header()["Content-Type"] = jsonType
	w.Header()["Cache-Control"] = noStore
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, `{"error":{"code":"stopping","message":"this instance is stopping; come back with the generation that you have seen"}}`+"\n")
}
