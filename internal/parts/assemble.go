// Package parts assembles the Kennel app: each job as a part of a program, with
// the stores that it opens, the messages that it works on, and what it knows about
// itself. Begin with assemble.go.
package parts

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"time"

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
	"kennel/internal/worker"
	"kennel/work"
)

// newEnvironment opens what the parts share, and sends no request. received
// takes how each receive of messages ended; nil behind a Functions host.
func newEnvironment(cfg config.Config, received func(error), log *slog.Logger) (_ *environment, err error) {
	e := &environment{
		cfg: cfg, account: azure.Account(cfg.Storage), counter: &requests.Counter{}, outcomes: &requests.Outcomes{}, meter: &observe.Meter{}, log: log,
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

// processorsOf returns the processors of batches, by the names that callers use.
type processorsOf func(config.Config) (map[string]work.Processor, error)

// Kennel wires the Kennel app, and sends no request. received takes how each
// receive of messages ended, in a process without a Functions host; behind one
// it is nil.
func Kennel(cfg config.Config, processors processorsOf, received func(error), log *slog.Logger) (*app.Program, error) {
	e, err := newEnvironment(cfg, received, log)
	if err != nil {
		return nil, err
	}
	if e.processors, err = processors(cfg); err != nil {
		return nil, err
	}
	parts, err := newParts(e)
	if err != nil {
		return nil, err
	}
	bill, writesBill, err := newBill(e)
	if err != nil {
		return nil, err
	}
	parts = append(parts, writesBill)
	scrape := &observe.Scraper{Members: e.members, Bill: bill}
	status := &observe.StatusReader{Account: cfg.Storage.String(), Relays: cfg.ServiceBusSecondary.Given(), Members: e.members, Bill: bill, Counter: e.counter}
	checks := func() ([][]doctor.Check, error) {
		return doctor.New(cfg, e.account, &azure.Options{Requests: e.counter, Job: "doctor"})
	}
	parts = append(parts, app.Part{Serves: app.RoutesOnly{
		{Function: "Health", Pattern: "GET /api/health", Handler: http.HandlerFunc(api.Health)},
		{Function: "Status", Pattern: "GET /api/status", Handler: api.ServeStatus(status.Read)},
		{Function: "Doctor", Pattern: api.DoctorPattern, Quota: &edge.Quota{}, Handler: api.ServeDoctor(checks)},
		{Function: "Metrics", Pattern: "GET /api/metrics", Handler: api.ServeMetrics(scrape.Text)},
		{Function: "OpenAPI", Pattern: "GET /api/openapi.yaml", Handler: http.HandlerFunc(api.OpenAPI)},
	}})
	a, err := app.New(cfg, e.members, e.meter, parts, log)
	if err == nil {
		a.Queues = names.WorkQueues(cfg.Partitions)
	}
	return a, err
}

// newParts returns the jobs. Each opens its clients, and sends no request.
func newParts(e *environment) ([]app.Part, error) {
	scaling, err := newScaling(e)
	if err != nil {
		return nil, err
	}
	sequences, err1 := newSequences(e)
	gates, err2 := newGates(e)
	channels, err3 := newChannels(e)
	relaying, err4 := newRelay(e.cfg, e.counter, e.members, e.log)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	batches, err := newBatches(e, gates.Gates)
	if err != nil {
		return nil, err
	}
	batches.checkStaged(os.DirFS("."))
	parts := []app.Part{
		{Serves: sequences, Knows: sequences, Runs: sequences, Closes: app.GivesBack},
		{Serves: gates, Knows: gates, Runs: gates},
		channels,
		{Serves: batches, Knows: batches, Runs: batches},
		newLetters(e, batches.batchWork),
		{Serves: scaling, Knows: scaling, Runs: scaling},
		{Knows: observe.MeterSource{Meter: e.meter}},
		{Knows: requestFacts{Counter: e.counter}},
		newStoragePart(e),
		{Runs: reportMembers(e.members), Closes: app.Leaves},
		{Serves: relaying, Knows: relaying, Runs: relaying, Closes: app.Disconnects},
	}
	if e.signals != nil {
		parts = append(parts, app.Part{Runs: connection{Signals: e.signals}, Closes: app.Disconnects})
	}
	return parts, nil
}
