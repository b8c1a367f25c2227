// Package parts assembles the Kennel app: each job as a part of a program, with
// the stores that it opens, the messages that it works on, and what it knows about
// itself. Begin with assemble.go.
package parts

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"kennel/gate"
	"kennel/internal/api"
	"kennel/internal/app"
	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/clients"
	"kennel/internal/config"
	"kennel/internal/doctor"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/program"
	"kennel/internal/worker"
)

// newEnvironment opens what the parts share, and sends no request. received
// takes how each receive of messages ended; nil behind a Functions host.
func newEnvironment(cfg config.Config, transport *http.Client, received func(error), log *slog.Logger) (_ *environment, err error) {
	e := &environment{
		cfg: cfg, account: azure.Account(cfg.Storage), transport: transport, counter: &requests.Counter{}, outcomes: &requests.Outcomes{}, meter: &observe.Meter{}, log: log,
	}
	if e.blobs, err = e.account.OpenBlobs(e.optionsOf("")); err != nil {
		return nil, err
	}
	if e.signals, err = clients.Bus(cfg.ServiceBus, e.counter); err != nil {
		return nil, err
	}
	kind := instances.Functions
	if received != nil {
		kind = instances.Worker
		e.listening = worker.NewListening(cfg, ofQueues(e.signals), received, log)
	}
	e.members = observe.NewMembers(openInstanceTable(e), kind, time.Now(), log)
	return e, nil
}

// Open wires a declared program, and sends no request. received takes how each
// receive of messages ended, in a process without a Functions host; behind one
// it is nil.
func Open(cfg config.Config, d *program.Declared, outside Outside, received func(error), log *slog.Logger) (*Running, error) {
	settings, err := ownSettings(d.Settings, outside.Environ)
	if err != nil {
		return nil, err
	}
	e, err := newEnvironment(cfg, outside.Transport, received, log)
	if err != nil {
		return nil, err
	}
	l := &life{hosted: e.listening == nil, starts: d.Starts, begun: make(chan struct{})}
	e.declared, e.life = d, l
	if l.owner, err = newOwner(e); err != nil {
		return nil, err
	}
	if e.processors, err = processorsOf(cfg, d, l, log); err != nil {
		return nil, err
	}
	e.newID, e.given = outside.NewID, given(d.Settings, outside.Environ)
	if e.listening == nil {
		e.unserved = unservedQueues(d, cfg.Storage.Prefix, cfg.Partitions, os.DirFS("."))
	}
	r := &Running{settings: settings, prefix: cfg.Storage.Prefix, life: l, InOrder: outside.NewID != nil}
	parts, err := newParts(e, r)
	if err != nil {
		return nil, err
	}
	r.Program, err = app.New(cfg, e.members, e.meter, parts, log)
	if err == nil {
		r.Program.Queues, r.Program.Begun = e.workQueues(), l.begun
	}
	return r, err
}

// newParts returns the parts of the program: the jobs that it uses, what every
// program has, and what its author declared.
func newParts(e *environment, r *Running) ([]app.Part, error) {
	jobs, err := newJobs(e, r)
	if err != nil {
		return nil, err
	}
	own, err := newOwn(e, r)
	if err != nil {
		return nil, err
	}
	if e.batches != nil || r.queues != nil || e.uses(program.Channels) {
		jobs = append(jobs, newLetters(e, e.batches, r.queues), newQueueRoutes(e, r))
	}
	common, err := newCommon(e)
	return slices.Concat(jobs, common, own), err
}

// newCommon returns what every program has.
func newCommon(e *environment) ([]app.Part, error) {
	status := &observe.StatusReader{Account: e.cfg.Storage.String(), Relays: e.cfg.ServiceBusSecondary.Given(), Members: e.members, Counter: e.counter}
	scrape := &observe.Scraper{Members: e.members}
	parts := []app.Part{
		{Knows: observe.MeterSource{Meter: e.meter}},
		{Knows: requestFacts{Counter: e.counter}},
		newStoragePart(e),
		{Runs: reportMembers(e.members), Closes: app.Leaves},
	}
	if e.uses(program.Bill) {
		bill, writesBill, err := newBill(e)
		if err != nil {
			return nil, err
		}
		status.Bill, scrape.Bill = bill, bill
		parts = append(parts, writesBill)
	}
	if e.listening == nil {
		stale, err := checkFunctions(e.declared, e.cfg.Storage.Prefix, os.DirFS("."))
		if err != nil {
			return nil, err
		}
		parts = append(parts, stale...)
	}
	if e.signals != nil {
		parts = append(parts, app.Part{Runs: connection{Signals: e.signals}, Closes: app.Disconnects})
	}
	checks := func() ([][]doctor.Check, error) {
		return doctor.New(e.cfg, e.account, doctor.Declared{Description: e.declared.Describe(), Given: e.given}, &azure.Options{HTTP: e.transport, Requests: e.counter, Job: "doctor"})
	}
	return append(parts, app.Part{Serves: app.RoutesOnly{
		{Function: "Health", Pattern: "GET /api/health", Handler: http.HandlerFunc(api.Health)},
		{Function: "Status", Pattern: "GET /api/status", Handler: api.ServeStatus(status.Read)},
		{Function: "Doctor", Pattern: api.DoctorPattern, Quota: &edge.Quota{}, Handler: api.ServeDoctor(checks)},
		{Function: "Metrics", Pattern: "GET /api/metrics", Handler: api.ServeMetrics(scrape.Text)},
		{Function: "OpenAPI", Pattern: "GET /api/openapi.yaml", Handler: http.HandlerFunc(api.OpenAPI)},
	}}), nil
}

// newJobs returns the jobs that the program uses. Each opens its clients, and
// sends no request.
func newJobs(e *environment, r *Running) (parts []app.Part, err error) {
	add := func(err1 error, some ...app.Part) {
		if err = errors.Join(err, err1); err1 == nil {
			parts = append(parts, some...)
		}
	}
	if e.uses(program.Scale) {
		scaling, err := newScaling(e)
		add(err, app.Part{Serves: scaling, Knows: scaling, Runs: scaling})
	} else if e.listening != nil {
		close(e.listening.Ready) // there are no rules to read
	}
	if e.uses(program.Numbers) {
		sequences, err := newSequences(e)
		r.jobs.sequences = sequences.Sequences
		add(err, app.Part{Serves: sequences, Knows: sequences, Runs: sequences, Closes: app.GivesBack})
	}
	gates, errOfGates := newGates(e) // batches may wait at one
	if e.uses(program.Gates) {
		r.jobs.gates = gates.Gates
		add(errOfGates, app.Part{Serves: gates, Knows: gates, Runs: gates})
	}
	if e.uses(program.Channels) {
		channels, err := newChannels(e)
		add(err, channels)
	}
	if e.uses(program.Batches) {
		add(e.addBatches(gates.Gates, &parts, r))
	}
	if e.uses(program.Messages) {
		relaying, err := newRelay(e.cfg, e.counter, e.members, e.log)
		if err == nil && relaying.Relay != nil {
			r.jobs.bus = relaying
		}
		add(err, app.Part{Serves: relaying, Knows: relaying, Runs: relaying, Closes: app.Disconnects})
	}
	return parts, err
}

// addBatches adds batches.
func (e *environment) addBatches(gates *gate.Gates, parts *[]app.Part, r *Running) error {
	batches, err := newBatches(e, gates)
	if err != nil {
		return err
	}
	r.jobs.batches = batches.Opens
	batches.checkStaged(os.DirFS("."))
	*parts = append(*parts, app.Part{Serves: batches, Knows: batches, Runs: batches})
	e.batches = batches.batchWork
	return nil
}

// newOwn returns what the author of the program declared.
func newOwn(e *environment, r *Running) ([]app.Part, error) {
	parts := []app.Part{{Runs: e.life}, {Serves: ownRoutes(e.declared, e.life)}}
	if len(e.declared.Queues) > 0 {
		queues, err := newOwnQueues(e)
		if err != nil {
			return nil, err
		}
		r.queues, r.pauses = queues.Queues, queues.pauses
		parts = append(parts, app.Part{Serves: queues, Knows: queues, Runs: queues})
	}
	if len(e.declared.Timers) > 0 || e.declared.Everything { // the app has none, and lists them
		timers, err := newOwnTimers(e)
		if err != nil {
			return nil, err
		}
		parts = append(parts, app.Part{Serves: timers, Knows: timers, Runs: timers})
	}
	return parts, nil
}

// uses reports whether the program uses a part.
func (e *environment) uses(p program.Part) bool { return e.declared.Uses[p] }

// workQueues returns the queues on which a worker works.
func (e *environment) workQueues() []string {
	return append(e.builtInQueues(), e.declared.StorageQueues()...)
}

// builtInQueues returns those of them that belong to built-in parts.
func (e *environment) builtInQueues() (all []string) {
	if e.uses(program.Channels) {
		all = append(all, names.CleanupQueue)
	}
	if e.uses(program.Batches) {
		all = append(all, WorkQueues(e.cfg.Partitions)...)
	}
	return all
}
