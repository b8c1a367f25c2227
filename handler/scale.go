package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"kennel/internal/azure"
	"kennel/internal/azure/containerapp"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/names"
	scalecheck "kennel/internal/scale/check"
	"kennel/internal/table"
	"kennel/queue"
)

// scaleStores is the stores of checks.
type scaleStores struct {
	rows  table.Store
	rules queue.Blobs
}

// openScaleStores opens them and makes no request.
func openScaleStores(account azure.Account, o azure.Options) (s scaleStores, err error) {
	o.Job = "scale"
	blobs, err1 := account.OpenBlobs(&o)
	tables, err2 := account.OpenTables(&o)
	if err := errors.Join(err1, err2); err != nil {
		return s, err
	}
	s.rules = azure.NewContainer(blobs, names.ScaleContainer)
	s.rows, err = azure.NewTable(tables, names.ScaleTable)
	return s, err
}

// scaleFunctions check scaling, and serve what the checks found.
type scaleFunctions struct {
	check *scalecheck.Check
	off   error // why scaling is not checked; nil if it is
}

// newScaling wires the checks of an account.
func newScaling(cfg config.Config, account azure.Account, o azure.Options, jobs func() []job, m *members, log *slog.Logger) (scaleFunctions, error) {
	stores, err := openScaleStores(account, o)
	if err != nil {
		log.Warn("scaling is not checked: that needs tables", "error", err)
		return scaleFunctions{off: err}, nil
	}
	return newScalingOn(cfg, stores, jobs, m, log)
}

// newScalingOn wires checks on stores.
func newScalingOn(cfg config.Config, s scaleStores, jobs func() []job, m *members, log *slog.Logger) (scaleFunctions, error) {
	read := func(ctx context.Context) (scalecheck.Facts, error) {
		facts, err := scaleFacts(ctx, jobs(), m)
		logProblems(ctx, facts.Reports, log)
		return facts, err
	}
	wake := func(queue string) {
		for _, j := range jobs() {
			if j.wake != nil {
				j.wake(queue)
			}
		}
	}
	options := &scalecheck.Options{Wake: wake, Latency: cfg.LatencyTarget, Keep: cfg.Retention, Apply: cfg.ScaleApply, Log: log}
	if cfg.ScaleTarget != "" {
		target, err := openScaleTarget(cfg)
		if err != nil {
			return scaleFunctions{}, err
		}
		options.Target, options.TargetName = target, containerapp.Name(cfg.ScaleTarget)
	}
	check, err := scalecheck.New(s.rows, s.rules, read, options)
	return scaleFunctions{check: check}, err
}

// openScaleTarget opens the container app of KENNEL_SCALE_TARGET and makes no
// request.
func openScaleTarget(cfg config.Config) (*containerapp.App, error) {
	target, err := containerapp.Open(cfg.ScaleTarget, &containerapp.Options{ManagedIdentity: cfg.Storage.ManagedIdentity, ClientID: cfg.Storage.ClientID})
	if err != nil {
		return nil, fmt.Errorf("invalid setting: KENNEL_SCALE_TARGET: %w", err)
	}
	return target, nil
}

// scaleFacts samples all queues, so that others need not, and reads what all
// processes report.
func scaleFacts(ctx context.Context, jobs []job, m *members) (f scalecheck.Facts, err error) {
	f.Depths, err = sampleAll(ctx, jobs, m)
	if err != nil {
		return f, err
	}
	directory, err := m.readTable(ctx, instances.PartProblems, instances.PartWork, instances.PartRecent)
	if err != nil {
		return f, err
	}
	isKnown := false
	for _, i := range directory.Live {
		f.Reports = append(f.Reports, i.Report)
		isKnown = isKnown || i.Instance == m.Name()
	}
	if !isKnown { // it has just started
		f.Reports = append(f.Reports, m.Report())
	}
	return f, nil
}

// logProblems logs each problem of the app once, for alerts on logs. One process
// makes the check, once a minute, so no other one logs it at the same time.
func logProblems(ctx context.Context, reports []instances.Report, log *slog.Logger) {
	type subject struct{ code, name string }
	logged := make(map[subject]bool)
	for _, r := range reports {
		for _, p := range r.Problems {
			if s := (subject{p.Code, p.Subject}); !logged[s] {
				logged[s] = true
				log.WarnContext(ctx, "the app has a problem", "code", p.Code, "subject", p.Subject, "what", p.What, "since", p.Since, "instance", r.Instance)
			}
		}
	}
}

func (s scaleFunctions) job() job {
	j := job{routes: s.routes(), register: s.register}
	if s.off == nil {
		j.problems = s.check.Problems
	}
	return j
}

func (s scaleFunctions) register(host *customhandler.App) {
	host.Timer("ScaleCheck", "tick", func(ctx context.Context, _ customhandler.Tick) error {
		if s.off != nil {
			return nil // newScaling logged it
		}
		_, err := s.check.Run(ctx)
		return err
	})
}

func (s scaleFunctions) routes() []route {
	const function = "Scale"
	return []route{
		{function: function, pattern: "GET /api/scale", handler: s.serve(scaleFailures, s.latest)},
		{function: function, pattern: "GET /api/scale/history", query: []string{"from", "to", "top", "continuation"}, handler: s.serve(scaleFailures, s.history)},
		{function: function, pattern: "GET /api/scale/rules", handler: s.serve(scaleFailures, s.rules)},
		{function: function, pattern: "PUT /api/scale/rules", query: []string{"dryRun"}, body: true, handler: s.serve(scaleRulesFailures, s.putRules)},
	}
}

var (
	scaleFailures = []failure{
		{scalecheck.ErrNone, http.StatusNotFound, "scale_not_checked",
			"Scaling was not checked yet. The timer ScaleCheck and workers check it once a minute; if this lasts, search the log for \"cannot check scaling\".", ""},
		{scalecheck.ErrContinuation, http.StatusBadRequest, "bad_continuation",
			"The continuation is invalid. Begin the list again.", ""},
		storageUnavailable,
	}
	scaleRulesFailures = []failure{
		{table.ErrRefused, http.StatusServiceUnavailable, codeUnavailable, rejected, "5"},
		{nil, http.StatusServiceUnavailable, "change_unclear", unconfirmed, "5"},
	}
)

func (s scaleFunctions) serve(failures []failure, do func(*http.Request) (reply, error)) http.Handler {
	return serve(failures, func(r *http.Request) (reply, error) {
		if s.off != nil {
			return reply{}, &customhandler.Error{Status: http.StatusNotImplemented, Code: "scale_off",
				Message: "This app has no tables, so scaling is not checked. Name them in AzureWebJobsStorage; the app's log states what is missing."}
		}
		return limited(r, do)
	})
}

// latest serves GET /api/scale.
func (s scaleFunctions) latest(r *http.Request) (reply, error) {
	record, err := s.check.Latest(r.Context())
	return reply{status: http.StatusOK, body: record}, err
}

// history serves GET /api/scale/history?from=…&to=…&top=N&continuation=….
func (s scaleFunctions) history(r *http.Request) (reply, error) {
	var p scalecheck.Page
	var err error
	if p.Top, p.Continuation, err = pageOf(r); err != nil {
		return reply{}, err
	}
	for name, at := range map[string]*time.Time{"from": &p.From, "to": &p.To} {
		if !hasQuery(r, name) {
			continue
		}
		if *at, err = time.Parse(time.RFC3339, customhandler.Query(r, name)); err != nil {
			return reply{}, badRequest("bad_time", name+" must be a time such as 2026-01-02T03:04:05Z.")
		}
	}
	records, continuation, err := s.check.History(r.Context(), p)
	answer := struct {
		Items        []scalecheck.Record `json:"items"`
		Continuation string              `json:"continuation,omitempty"`
	}{records, continuation}
	return reply{status: http.StatusOK, body: answer}, err
}

// rules serves GET /api/scale/rules: those in use, with all defaults.
func (s scaleFunctions) rules(r *http.Request) (reply, error) {
	rules, err := s.check.Rules(r.Context())
	return reply{status: http.StatusOK, body: rules}, err
}

// putRules serves PUT /api/scale/rules. With ?dryRun=true it checks the rules and
// stores nothing.
func (s scaleFunctions) putRules(r *http.Request) (reply, error) {
	var text json.RawMessage
	if err := customhandler.ReadJSON(r, maxBody, &text); err != nil {
		return reply{}, err
	}
	put := s.check.PutRules
	switch dryRun := customhandler.Query(r, "dryRun"); {
	case dryRun == "true":
		put = s.check.TryRules
	case hasQuery(r, "dryRun") && dryRun != "false":
		return reply{}, badRequest("bad_query", "dryRun must be true or false.")
	}
	rules, err := put(r.Context(), text)
	return reply{status: http.StatusOK, body: rules}, err
}
