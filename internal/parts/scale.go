package parts

import (
	"context"
	"errors"
	"log/slog"

	"kennel/internal/api"
	"kennel/internal/app"
	"kennel/internal/azure"
	"kennel/internal/azure/containerapp"
	"kennel/internal/clients"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/observe"
	scalecheck "kennel/internal/scale/check"
	"kennel/internal/table"
	"kennel/internal/worker"
	"kennel/queue"
)

// scalePart is the checks of scaling as a part of the program.
type scalePart struct {
	api.ScaleResource
	app.Idle
	observe.NoFacts

	listening *worker.Listening // nil behind a host
}

// newScaling wires the checks of an account. A worker needs them, for the rules
// of its hands.
func newScaling(e *environment) (*scalePart, error) {
	stores, err := OpenScaleStores(e.account, e.optionsOf("scale"))
	if err != nil && e.listening == nil {
		e.log.Warn("scaling is not checked: that needs tables", "error", err)
		return &scalePart{ScaleResource: api.ScaleResource{Off: err}}, nil
	}
	if err != nil {
		return nil, withoutTables(err)
	}
	s, err := newScalingOn(e.cfg, stores, e.members, e.log)
	if err == nil {
		s.follow(e.listening)
	}
	return s, err
}

// follow has a process without a Functions host obey the rules for hands.
func (s *scalePart) follow(l *worker.Listening) {
	s.listening = l
	if l != nil {
		l.HandsFor = s.Check.HandsFor
	}
}

// Functions registers the timer.
func (s *scalePart) Functions(host *customhandler.App) {
	host.Timer("ScaleCheck", "tick", func(ctx context.Context, _ customhandler.Tick) error {
		if s.Off != nil {
			return nil // newScaling logged it
		}
		_, err := s.Check.Run(ctx)
		return err
	})
}

// Work reads the rules for hands, and checks scaling until ctx ends.
func (s *scalePart) Work(ctx context.Context) error {
	func() {
		defer close(s.listening.Ready)
		s.Check.Begin(ctx)
	}()
	return s.Check.Loop(ctx)
}

func (s *scalePart) Problems() []instances.Problem {
	if s.Off != nil {
		return nil
	}
	return s.Check.Problems()
}

// scaleStores is the stores of checks.
type scaleStores struct {
	Rows  table.Store
	Rules queue.Blobs
}

// OpenScaleStores opens them and makes no request.
func OpenScaleStores(account azure.Account, o *azure.Options) (s scaleStores, err error) {
	blobs, err1 := account.OpenBlobs(o)
	tables, err2 := account.OpenTables(o)
	if err := errors.Join(err1, err2); err != nil {
		return s, err
	}
	s.Rules = azure.NewContainer(blobs, names.ScaleContainer)
	s.Rows, err = azure.NewTable(tables, names.ScaleTable)
	return s, err
}

// newScalingOn wires checks on stores.
func newScalingOn(cfg config.Config, s scaleStores, m *observe.Members, log *slog.Logger) (*scalePart, error) {
	read := func(ctx context.Context) (scalecheck.Facts, error) {
		facts, err := scaleFacts(ctx, m)
		logProblems(ctx, facts.Reports, log)
		return facts, err
	}
	options := &scalecheck.Options{Wake: m.Wake, Latency: cfg.LatencyTarget, Keep: cfg.Retention, Apply: cfg.ScaleApply, Log: log}
	if cfg.ScaleTarget != "" {
		target, err := clients.ScaleTarget(cfg)
		if err != nil {
			return nil, err
		}
		options.Target, options.TargetName = target, containerapp.Name(cfg.ScaleTarget)
	}
	check, err := scalecheck.New(s.Rows, s.Rules, read, options)
	return &scalePart{ScaleResource: api.ScaleResource{Check: check}}, err
}

// scaleFacts samples all queues, so that others need not, and reads what all
// processes report.
func scaleFacts(ctx context.Context, m *observe.Members) (f scalecheck.Facts, err error) {
	f.Depths, err = m.SampleAll(ctx)
	if err != nil {
		return f, err
	}
	directory, err := m.ReadTable(ctx, append(scalecheck.Parts(), instances.Problems)...)
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
