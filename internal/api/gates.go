package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"kennel/gate"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/observe"
)

// How long a wait takes, by default and at least.
const (
	DefaultWait = 30 * time.Second
	minWait     = time.Second // a shorter wait would end before storage responds
)

// GateResource serves gates.
type GateResource struct {
	Gates    *gate.Gates
	Store    GateStore
	Members  *observe.Members
	SignedIn bool // the platform reports who calls
}

func (g GateResource) Routes() []edge.Route {
	const function = "Unleash"
	return []edge.Route{
		{Function: function, Pattern: "GET /api/gates", Query: []string{"top", "continuation"}, Handler: Serve(gateListFailures, g.list)},
		{Function: function, Pattern: "GET /api/gates/{gate}", Handler: g.serve(g.state)},
		{Function: function, Pattern: "GET /api/gates/{gate}/waiters", Handler: g.serve(g.listWaiters)},
		{Function: function, Pattern: "POST /api/gates/{gate}/release", Body: true, Quota: &edge.Quota{}, Handler: g.serve(g.change((*gate.Gates).Release))},
		{Function: function, Pattern: "POST /api/gates/{gate}/close", Body: true, Handler: g.serve(g.change((*gate.Gates).Close))},
		{Function: function, Pattern: "GET /api/gates/{gate}/wait", Query: []string{"generation", "timeout"}, Waits: true, Handler: g.serve(g.wait)},
	}
}

// gateCall serves a call for the gate that its address names.
type gateCall func(r *http.Request, name string) (edge.Reply, error)

func (g GateResource) serve(do gateCall) http.Handler {
	return Serve(GateFailures, func(r *http.Request) (edge.Reply, error) {
		name := r.PathValue("gate")
		if err := gate.CheckName(name); err != nil {
			return edge.Reply{}, edge.BadRequest("bad_gate", err.Error())
		}
		return do(r, name)
	})
}

// GateStore is what operators see of the stored gates.
type GateStore interface {
	List(ctx context.Context, top int, continuation string) (page []azure.StoredGate, next string, err error)
}

// GateItem is a gate in the list.
type GateItem struct {
	Gate       string    `json:"gate"`
	Released   bool      `json:"released"`
	Generation *int64    `json:"generation"` // nil if the stored document cannot be used, so that the gate counts as closed
	ChangedAt  time.Time `json:"changedAt,omitzero"`
	Waiters    int       `json:"waiters"` // in all instances that are known
}

// GateList is a page of gates.
type GateList struct {
	Items        []GateItem `json:"items"`
	Continuation string     `json:"continuation,omitempty"`
	Partial      bool       `json:"partial,omitempty"` // only this instance is known
}

// list serves GET /api/gates?top=N&continuation=….
func (g GateResource) list(r *http.Request) (edge.Reply, error) {
	return edge.Limited(r, func(r *http.Request) (edge.Reply, error) {
		top, continuation, err := edge.PageOf(r)
		if err != nil {
			return edge.Reply{}, err
		}
		page, next, err := g.Store.List(r.Context(), top, continuation)
		if err != nil {
			return edge.Reply{}, err
		}
		waiting, known := g.waiters(r.Context())
		waiters := make(map[string]int)
		for _, at := range waiting {
			for gate, n := range at {
				waiters[gate] += n
			}
		}
		items := []GateItem{}
		for _, stored := range page {
			item := GateItem{Gate: stored.Gate, Released: stored.Released, ChangedAt: stored.ChangedAt, Waiters: waiters[stored.Gate]}
			if stored.Err == nil {
				item.Generation = &stored.Generation
			}
			items = append(items, item)
		}
		return edge.Reply{Status: http.StatusOK, Body: GateList{items, next, !known}}, nil
	})
}

// waiterItem is how many waiters an instance has at a gate.
type waiterItem struct {
	Instance string `json:"instance"`
	Waiters  int    `json:"waiters"`
}

// WaiterList is who waits at a gate.
type WaiterList struct {
	Items   []waiterItem `json:"items"`
	Partial bool         `json:"partial,omitempty"` // only this instance is known
}

// listWaiters serves GET /api/gates/{gate}/waiters: the instances that have
// waiters, those with most of them first.
func (g GateResource) listWaiters(r *http.Request, name string) (edge.Reply, error) {
	waiting, known := g.waiters(r.Context())
	list := WaiterList{Items: []waiterItem{}, Partial: !known}
	for instance, at := range waiting {
		if at[name] > 0 {
			list.Items = append(list.Items, waiterItem{instance, at[name]})
		}
	}
	slices.SortFunc(list.Items, func(a, b waiterItem) int {
		return cmp.Or(b.Waiters-a.Waiters, strings.Compare(a.Instance, b.Instance))
	})
	return edge.Reply{Status: http.StatusOK, Body: list}, nil
}

// waiters returns how many waiters each live instance has, by its name and that
// of the gate. It returns false if only those of this process are known.
func (g GateResource) waiters(ctx context.Context) (waiters map[string]map[string]int, known bool) {
	others, known := g.Members.Live(ctx, instances.GateSection)
	waiters = make(map[string]map[string]int)
	for _, other := range others {
		at := make(map[string]int)
		for _, gate := range instances.GateSection.Of(other.Report) {
			at[gate.Name] = gate.Waiters
		}
		waiters[other.Instance] = at
	}
	own := make(map[string]int)
	for name, watched := range g.Gates.Watched() {
		own[name] = watched.Waiting
	}
	waiters[g.Members.Name()] = own
	return waiters, known
}

// state serves GET /api/gates/{gate}: its state and history.
func (g GateResource) state(r *http.Request, name string) (edge.Reply, error) {
	state, err := g.Gates.State(r.Context(), name)
	return edge.Reply{Status: http.StatusOK, Body: state}, err
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
func (g GateResource) change(do func(*gate.Gates, context.Context, string, gate.Change) (gate.Changed, error)) gateCall {
	return func(r *http.Request, name string) (edge.Reply, error) {
		c, err := g.readChange(r)
		if err != nil {
			return edge.Reply{}, err
		}
		done, err := do(g.Gates, r.Context(), name, c)
		if err != nil {
			return edge.Reply{}, err
		}
		answer := changeAnswer{State: done.State, Changed: done.Changed}
		answer.History = nil
		if done.Signalled || done.SignalErr != nil {
			answer.Signalled = &done.Signalled
		}
		return edge.Reply{Status: http.StatusOK, Body: answer}, nil
	}
}

// wait serves GET /api/gates/{gate}/wait?generation=G&timeout=30s: 200 once the
// gate was released after generation G, or without G once it is released; 202
// after the timeout, with the generation for the next request.
func (g GateResource) wait(r *http.Request, name string) (edge.Reply, error) {
	after, err := generationOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	limit, err := timeoutOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	if deadline, ok := r.Context().Deadline(); ok {
		// A wait that the invocation's time limit would cut short ends before it,
		// so that its caller gets 202 instead of an error.
		limit = max(min(limit, time.Until(deadline)*9/10), time.Millisecond)
	}
	waited, err := g.Gates.Wait(r.Context(), name, after, limit)
	if err != nil {
		return edge.Reply{}, err
	}
	waited.State.History = nil
	status := http.StatusAccepted
	if waited.Passed {
		status = http.StatusOK
	}
	return edge.Reply{Status: status, Body: waited.State}, nil
}

// readChange reads the body and the caller of a change.
func (g GateResource) readChange(r *http.Request) (gate.Change, error) {
	var body struct {
		By     string `json:"by"`
		Reason string `json:"reason"`
		Force  bool   `json:"force"`
	}
	if customhandler.HasBody(r) {
		if err := customhandler.ReadJSON(r, edge.MaxBody, &body); err != nil {
			return gate.Change{}, err
		}
	}
	return gate.Change{By: g.caller(r, body.By), Reason: body.Reason, Force: body.Force}, nil
}

// caller returns the name to record for a change. Where the platform signs
// callers in, its headers count, so that no caller can use the name of another.
func (g GateResource) caller(r *http.Request, given string) string {
	given = cmp.Or(strings.TrimSpace(given), edge.Unnamed)
	if p, ok := edge.PersonOf(r); ok && g.SignedIn {
		return p.Name
	}
	if !g.SignedIn {
		return given
	}
	signed := cmp.Or(r.Header.Get("X-MS-CLIENT-PRINCIPAL-NAME"), r.Header.Get("X-MS-CLIENT-PRINCIPAL-ID"), "not signed in: "+given)
	runes := []rune(strings.ToValidUTF8(signed, "?"))
	return string(runes[:min(len(runes), gate.MaxBy)])
}

func generationOf(r *http.Request) (int64, error) {
	if !edge.HasQuery(r, "generation") {
		return gate.Now, nil
	}
	n, err := strconv.ParseInt(customhandler.Query(r, "generation"), 10, 64)
	if err != nil || n < 0 || n > gate.MaxGeneration {
		return 0, edge.BadRequest("bad_generation",
			fmt.Sprintf("generation must be a whole number from 0 to %d, as in an earlier answer. Omit it to pass a gate that is released now.", int64(gate.MaxGeneration)))
	}
	return n, nil
}

func timeoutOf(r *http.Request) (time.Duration, error) {
	if !edge.HasQuery(r, "timeout") {
		return DefaultWait, nil
	}
	d, err := time.ParseDuration(customhandler.Query(r, "timeout"))
	if err != nil || d < minWait || d > gate.MaxWait {
		return 0, edge.BadRequest("bad_timeout",
			fmt.Sprintf("timeout must be a time with its unit from %v to %.0fs, such as %v. To wait longer, repeat the request.", minWait, gate.MaxWait.Seconds(), DefaultWait))
	}
	return d, nil
}
