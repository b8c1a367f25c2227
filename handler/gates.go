package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"kennel/gate"
	"kennel/internal/azure"
	"kennel/internal/azure/servicebus"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/names"
)

const (
	defaultWait = 30 * time.Second
	minWait     = time.Second // a shorter wait would end before storage responds

	// unnamed is recorded for a change whose caller gave no name.
	unnamed = "unknown"
)

// gateFunctions serve gates.
type gateFunctions struct {
	gates    *gate.Gates
	store    gateStore
	members  *members
	bus      string // for the status
	signedIn bool   // the platform reports who calls
	limits   *limits
}

// newGates serves gates.
func newGates(cfg config.Config, blobs *azure.Blobs, signals *servicebus.Signals, m *members, log *slog.Logger) (gateFunctions, error) {
	gates, store, err := openGates(blobs, signals, log)
	return gateFunctions{gates, store, m, cfg.ServiceBus.String(), cfg.SignedIn, &limits{}}, err
}

// openGates opens the gates of an account. Without signals, which are nil then,
// they are polled.
func openGates(blobs *azure.Blobs, signals *servicebus.Signals, log *slog.Logger) (*gate.Gates, *azure.Gates, error) {
	o := &gate.Options{Log: log}
	if signals != nil {
		o.Signals = signals
	}
	store := azure.NewGates(blobs, names.GatesContainer)
	gates, err := gate.New(store, o)
	return gates, store, err
}

func (g gateFunctions) job() job {
	return job{routes: g.routes(), run: g.gates.Run, report: g.report, facts: g.facts, problems: g.problems}
}

func (g gateFunctions) routes() []route {
	const function = "Unleash"
	return []route{
		{function: function, pattern: "GET /api/gates", query: []string{"top", "continuation"}, handler: serve(gateListFailures, g.list)},
		{function: function, pattern: "GET /api/gates/{gate}", handler: g.serve(g.state)},
		{function: function, pattern: "GET /api/gates/{gate}/waiters", handler: g.serve(g.listWaiters)},
		{function: function, pattern: "POST /api/gates/{gate}/release", body: true, quota: &quota{}, handler: g.serve(g.change((*gate.Gates).Release))},
		{function: function, pattern: "POST /api/gates/{gate}/close", body: true, handler: g.serve(g.change((*gate.Gates).Close))},
		{function: function, pattern: "GET /api/gates/{gate}/wait", query: []string{"generation", "timeout"}, waits: true, handler: g.serve(g.wait)},
	}
}

func (g gateFunctions) report(status *statusAnswer) {
	status.Signals = signalsStatus{Bus: g.bus, Receiving: g.gates.ReceivesSignals()}
	reportGates(status, g.gates.Watched())
}

func reportGates(status *statusAnswer, all map[string]gate.Watched) {
	status.GateCount = len(all)
	status.Gates = busiest(all, func(a, b gate.Watched) int { return cmp.Compare(b.Waiting, a.Waiting) })
}

func (g gateFunctions) facts(r *instances.Report) {
	for name, watched := range g.gates.Watched() {
		if watched.Waiting > 0 {
			r.Gates = append(r.Gates, instances.Gate{Name: name, Waiters: watched.Waiting})
		}
	}
	slices.SortFunc(r.Gates, func(a, b instances.Gate) int {
		return cmp.Or(b.Waiters-a.Waiters, strings.Compare(a.Name, b.Name))
	})
}

// gateCall serves a call for the gate that its address names.
type gateCall func(r *http.Request, name string) (reply, error)

func (g gateFunctions) serve(do gateCall) http.Handler {
	return serve(gateFailures, func(r *http.Request) (reply, error) {
		name := r.PathValue("gate")
		if err := gate.CheckName(name); err != nil {
			return reply{}, badRequest("bad_gate", err.Error())
		}
		return do(r, name)
	})
}

// state serves GET /api/gates/{gate}: its state and history.
func (g gateFunctions) state(r *http.Request, name string) (reply, error) {
	state, err := g.gates.State(r.Context(), name)
	return reply{status: http.StatusOK, body: state}, err
}

// changeAnswer is the state of a gate after a release or close.
type changeAnswer struct {
	gate.State
	Changed bool `json:"changed"` // false: the gate was in this state before

	// Signalled reports whether other instances were sent a signal. It is
	// absent if there was nothing to announce, or no Service Bus.
	Signalled *bool `json:"signalled,omitempty"`
}

// change serves POST /api/gates/{gate}/release and …/close, with an optional
// body {"reason":"…","by":"…","force":false}.
func (g gateFunctions) change(do func(*gate.Gates, context.Context, string, gate.Change) (gate.Changed, error)) gateCall {
	return func(r *http.Request, name string) (reply, error) {
		c, err := g.readChange(r)
		if err != nil {
			return reply{}, err
		}
		done, err := do(g.gates, r.Context(), name, c)
		if err != nil {
			return reply{}, err
		}
		answer := changeAnswer{State: done.State, Changed: done.Changed}
		answer.History = nil
		if done.Signalled || done.SignalErr != nil {
			answer.Signalled = &done.Signalled
		}
		return reply{status: http.StatusOK, body: answer}, nil
	}
}

// wait serves GET /api/gates/{gate}/wait?generation=G&timeout=30s: 200 once the
// gate was released after generation G, or without G once it is released; 202
// after the timeout, with the generation for the next request.
func (g gateFunctions) wait(r *http.Request, name string) (reply, error) {
	after, err := generationOf(r)
	if err != nil {
		return reply{}, err
	}
	limit, err := timeoutOf(r)
	if err != nil {
		return reply{}, err
	}
	if deadline, ok := r.Context().Deadline(); ok {
		// A wait that the invocation's time limit would cut short ends before it,
		// so that its caller gets 202 instead of an error.
		limit = max(min(limit, time.Until(deadline)*9/10), time.Millisecond)
	}
	waited, err := g.gates.Wait(r.Context(), name, after, limit)
	if err != nil {
		return reply{}, err
	}
	waited.State.History = nil
	status := http.StatusAccepted
	if waited.Passed {
		status = http.StatusOK
	}
	return reply{status: status, body: waited.State}, nil
}

// readChange reads the body and the caller of a change.
func (g gateFunctions) readChange(r *http.Request) (gate.Change, error) {
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
	return gate.Change{By: g.caller(r, body.By), Reason: body.Reason, Force: body.Force}, nil
}

// caller returns the name to record for a change. Where the platform signs
// callers in, its headers count, so that no caller can use the name of another.
func (g gateFunctions) caller(r *http.Request, given string) string {
	given = cmp.Or(strings.TrimSpace(given), unnamed)
	if p, ok := personOf(r); ok && g.signedIn {
		return p.Name
	}
	if !g.signedIn {
		return given
	}
	signed := cmp.Or(r.Header.Get("X-MS-CLIENT-PRINCIPAL-NAME"), r.Header.Get("X-MS-CLIENT-PRINCIPAL-ID"), "not signed in: "+given)
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
			fmt.Sprintf("generation must be a whole number from 0 to %d, as in an earlier answer. Omit it to pass a gate that is released now.", int64(gate.MaxGeneration)))
	}
	return n, nil
}

func timeoutOf(r *http.Request) (time.Duration, error) {
	if !hasQuery(r, "timeout") {
		return defaultWait, nil
	}
	d, err := time.ParseDuration(customhandler.Query(r, "timeout"))
	if err != nil || d < minWait || d > gate.MaxWait {
		return 0, badRequest("bad_timeout",
			fmt.Sprintf("timeout must be a time with its unit from %v to %.0fs, such as %v. To wait longer, repeat the request.", minWait, gate.MaxWait.Seconds(), defaultWait))
	}
	return d, nil
}
