package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/config"
	"kennel/internal/cost/bill"
	"kennel/internal/customhandler"
	"kennel/internal/instances"
)

// maxBody limits the body of a call to any function of this app, in bytes.
const maxBody = 1 << 20

// app is the wired program.
type app struct {
	name   string // of this process, as in the status
	host   *customhandler.App
	jobs   []job
	routes []route // all routes of the API, without those of the console
}

// job is one part of the app: what it adds to the host, to the life of the
// process and to the status. A nil field means that the job does nothing there.
// It is a struct of functions so that a job has no empty methods and a misspelt
// one does not compile.
type job struct {
	routes   []route
	register func(host *customhandler.App) // its functions without routes
	run      func(context.Context) error   // beside the server, until its context ends
	close    func(context.Context) error   // after the last invocation
	probes   map[string]probe              // by service; one of each service is enough for all jobs
	report   func(*statusAnswer)           // fills in the job's part of the status
	facts    func(*instances.Report)       // fills in the job's part of what this process reports to the others

	letters  map[string]*letterCount                                         // what it knows of dead letters, by queue
	problems func() []instances.Problem                                      // the present problems; cheap, without requests
	sample   func(context.Context) (map[string]instances.QueueSample, error) // the depths of work queues, by queue; sends requests to storage
	wake     func(queue string)                                              // signals waiting work, if the queue is one of the job's
}

// newApp wires everything and sends no request.
func newApp(cfg config.Config, log *slog.Logger) (*app, error) {
	account := azure.Account(cfg.Storage)
	counter, outcomes := &requests.Counter{}, &requests.Outcomes{}
	observed := azure.Options{Requests: counter, Outcomes: outcomes}
	blobs, err := account.OpenBlobs(&observed)
	if err != nil {
		return nil, err
	}
	a := &app{}
	started := time.Now()
	rows := openInstanceTable(account, observed, log)
	members := newMembers(rows, instances.Functions, started, func() []job { return a.jobs }, log)
	a.name = members.Name()
	sequences, err := newSequences(cfg, blobs, members, log)
	if err != nil {
		return nil, err
	}
	signals, err := openBus(cfg.ServiceBus, counter)
	if err != nil {
		return nil, err
	}
	relaying, err := newRelay(cfg, counter, log)
	if err != nil {
		return nil, err
	}
	relaying.members = members
	gates, err := newGates(cfg, blobs, signals, members, log)
	if err != nil {
		return nil, err
	}
	meter := &meter{}
	batches, err := newBatches(cfg, account, observed, hostShare, signals, gates.gates, meter, log)
	if err != nil {
		return nil, err
	}
	batches.members = members
	batches.checkStaged(os.DirFS("."))
	letters := newLetters(account, observed, batches, a.letterCount, log)
	scaling, err := newScaling(cfg, account, observed, func() []job { return a.jobs }, members, log)
	if err != nil {
		return nil, err
	}
	checks := func() ([][]check, error) {
		return newDoctor(cfg, account, &azure.Options{Requests: counter, Job: "doctor"})
	}
	a.host, err = customhandler.New(&customhandler.Options{
		Log:     log,
		Timeout: cfg.InvocationTimeout,
		MaxBody: maxBody,
		Drain:   cfg.Drain,
	})
	if err != nil {
		return nil, err
	}
	ledger := newLedger(account, observed, bill.Process{Name: a.name, Bus: signals != nil}, counter, meter.messages, log)
	prices, err := readPrices(cfg.Prices)
	if err != nil {
		return nil, err
	}
	billing := &billing{ledger: ledger, prices: prices, host: hostOf(cfg), log: log}
	a.jobs = []job{
		sequences, gates.job(), newChannels(account, observed, signals, meter, log), batches.job(), {routes: letters.routes()}, busJob(signals),
		scaling.job(),
		{facts: meter.facts}, {facts: requestFacts(counter)}, storageJob(account, observed, rows),
		members.job(), // closed late: giving back numbers matters more
		{run: ledger.Run, close: ledger.Close},
		relaying.job(),
	}
	for _, j := range a.jobs {
		a.routes = append(a.routes, j.routes...)
		if j.register != nil {
			j.register(a.host)
		}
	}
	a.routes = append(a.routes,
		route{function: "Health", pattern: "GET /api/health", handler: http.HandlerFunc(health)},
		route{function: "Status", pattern: "GET /api/status", handler: newStatus(cfg, a.jobs, members, billing, counter, started)},
		route{function: "Doctor", pattern: doctorPattern, quota: &quota{}, handler: serveDoctor(checks)},
		route{function: "Metrics", pattern: "GET /api/metrics", handler: newMetrics(a.jobs, members, billing)},
		route{function: "OpenAPI", pattern: "GET /api/openapi.yaml", handler: http.HandlerFunc(openAPI)})
	for i, rt := range a.routes {
		if !rt.waits {
			a.routes[i].handler = meter.http(rt.handler)
		}
	}
	serveRoutes(a.host, a.routes)
	serveRoutes(a.host, newConsole(cfg, log).routes(a.routes))
	return a, nil
}

// letterCount returns what this process knows of the dead letters of a queue,
// nil for nothing.
func (a *app) letterCount(queue string) *letterCount {
	for _, j := range a.jobs {
		if known := j.letters[queue]; known != nil {
			return known
		}
	}
	return nil
}

// run serves until ctx ends or a part of the app fails.
func (a *app) run(ctx context.Context, listener net.Listener) error {
	return a.runWith(ctx, func(ctx context.Context) error { return a.host.Serve(ctx, listener) })
}

// runWith runs the jobs beside a server. Jobs learn at the same time as the
// server that ctx ends, so waiters at gates get an answer before the server
// closes their connections.
func (a *app) runWith(ctx context.Context, serve func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(a.jobs)+1)
	var running sync.WaitGroup
	for i, j := range a.jobs {
		if j.run == nil {
			continue
		}
		running.Go(func() {
			if errs[i] = j.run(ctx); errs[i] != nil {
				stop()
			}
		})
	}
	errs[len(a.jobs)] = serve(ctx)
	stop()
	running.Wait()
	return errors.Join(errs...)
}

// close releases what this process holds.
func (a *app) close(ctx context.Context) error {
	var errs []error
	for _, j := range a.jobs {
		if j.close != nil {
			errs = append(errs, j.close(ctx))
		}
	}
	return errors.Join(errs...)
}
