package api

import (
	"encoding/json"
	"net/http"
	"time"

	"kennel/internal/customhandler"
	"kennel/internal/edge"
	scalecheck "kennel/internal/scale/check"
)

// ScaleResource serves what the checks of scaling found.
type ScaleResource struct {
	Check *scalecheck.Check
	Off   error // why scaling is not checked; nil if it is
}

func (s ScaleResource) Routes() []edge.Route {
	const function = "Scale"
	return []edge.Route{
		{Function: function, Pattern: "GET /api/scale", Handler: s.serve(ScaleFailures, s.latest)},
		{Function: function, Pattern: "GET /api/scale/history", Query: []string{"from", "to", "top", "continuation"}, Handler: s.serve(ScaleFailures, s.history)},
		{Function: function, Pattern: "GET /api/scale/rules", Handler: s.serve(ScaleFailures, s.rules)},
		{Function: function, Pattern: "PUT /api/scale/rules", Query: []string{"dryRun"}, Body: true, Handler: s.serve(ScaleRulesFailures, s.putRules)},
	}
}

func (s ScaleResource) serve(failures []Failure, do func(*http.Request) (edge.Reply, error)) http.Handler {
	return Serve(failures, func(r *http.Request) (edge.Reply, error) {
		if s.Off != nil {
			return edge.Reply{}, errScaleOff
		}
		return edge.Limited(r, do)
	})
}

// latest serves GET /api/scale.
func (s ScaleResource) latest(r *http.Request) (edge.Reply, error) {
	record, err := s.Check.Latest(r.Context())
	return edge.Reply{Status: http.StatusOK, Body: record}, err
}

// history serves GET /api/scale/history?from=…&to=…&top=N&continuation=….
func (s ScaleResource) history(r *http.Request) (edge.Reply, error) {
	var p scalecheck.Page
	var err error
	if p.Top, p.Continuation, err = edge.PageOf(r); err != nil {
		return edge.Reply{}, err
	}
	for name, at := range map[string]*time.Time{"from": &p.From, "to": &p.To} {
		if !edge.HasQuery(r, name) {
			continue
		}
		if *at, err = time.Parse(time.RFC3339, customhandler.Query(r, name)); err != nil {
			return edge.Reply{}, edge.BadRequest("bad_time", name+" must be a time such as 2026-01-02T03:04:05Z.")
		}
	}
	records, continuation, err := s.Check.History(r.Context(), p)
	answer := struct {
		Items        []scalecheck.Record `json:"items"`
		Continuation string              `json:"continuation,omitempty"`
	}{records, continuation}
	return edge.Reply{Status: http.StatusOK, Body: answer}, err
}

// rules serves GET /api/scale/rules: those in use, with all defaults.
func (s ScaleResource) rules(r *http.Request) (edge.Reply, error) {
	rules, err := s.Check.Rules(r.Context())
	return edge.Reply{Status: http.StatusOK, Body: rules}, err
}

// putRules serves PUT /api/scale/rules. With ?dryRun=true it checks the rules and
// stores nothing.
func (s ScaleResource) putRules(r *http.Request) (edge.Reply, error) {
	var text json.RawMessage
	if err := customhandler.ReadJSON(r, edge.MaxBody, &text); err != nil {
		return edge.Reply{}, err
	}
	put := s.Check.PutRules
	switch dryRun := customhandler.Query(r, "dryRun"); {
	case dryRun == "true":
		put = s.Check.TryRules
	case edge.HasQuery(r, "dryRun") && dryRun != "false":
		return edge.Reply{}, edge.BadRequest("bad_query", "dryRun must be true or false.")
	}
	rules, err := put(r.Context(), text)
	return edge.Reply{Status: http.StatusOK, Body: rules}, err
}
