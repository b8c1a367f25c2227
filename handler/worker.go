package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"kennel/gate"
	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/config"
	"kennel/internal/cost/bill"
	"kennel/internal/customhandler"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/table"
	"kennel/internal/version"
	"kennel/queue"
	"kennel/work"
)

// defaultProbes is where a worker serves its health.
const defaultProbes = "127.0.0.1:8080"

// sweepEvery is the interval of a worker's sweeps, which differs by up to a
// tenth. It is that of the timer in functions/ChannelSweep.
const sweepEvery = 5 * time.Minute

// worker processes the app's queues without a Functions host. It serves no part
// of the API, but the console where only this machine reaches it.
type worker struct {
	name    string                        // of this process, as in the status
	work    []func(context.Context) error // until the worker is stopped
	support []func(context.Context) error // until the work has ended
	close   []func(context.Context) error // after that
	probes  *probes
	log     *slog.Logger
}

// runWorker runs a worker until ctx ends.
func runWorker(ctx context.Context, cfg config.Config, address string, log *slog.Logger) error {
	port, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("open the port of /healthz, /readyz and /metrics; choose another one with --listen: %w", err)
	}
	w, err := openWorker(cfg, log)
	if err != nil {
		port.Close()
		return err
	}
	if onLoopback(port) {
		c := newWorkerConsole(cfg, log)
		w.probes.console, w.support = c, append(w.support, c.run)
	}
	w.support = append(w.support, func(ctx context.Context) error { return w.probes.serve(ctx, port, log) })
	log.Info("ready", "kind", instances.Worker, "address", port.Addr().String(), "queues", strings.Join(names.WorkQueues(cfg.Partitions), ","), "version", version.Read().Version)
	traces := openTraces(cfg, instances.Worker, w.name, log)
	defer traces.Close()
	err = w.run(traces.Context(ctx))
	log.Info("stopped")
	return err
}

// openWorker connects a worker to storage and sends no request.
func openWorker(cfg config.Config, log *slog.Logger) (*worker, error) {
	account, counter, outcomes := azure.Account(cfg.Storage), &requests.Counter{}, &requests.Outcomes{}
	observed := azure.Options{Requests: counter, Outcomes: outcomes}
	signals, err := openBus(cfg.ServiceBus, counter)
	if err != nil {
		return nil, err
	}
	ofChannels := observed
	ofChannels.Job = "channels"
	c, queues, err := openChannels(account, &ofChannels, signals, &meter{}, log)
	if err != nil {
		return nil, fmt.Errorf("a worker needs the tables and queues of the storage account: %w", err)
	}
	relaying, err := newRelay(cfg, counter, log)
	if err != nil {
		return nil, err
	}
	jobs := []job{busJob(signals), {facts: requestFacts(counter)}, relaying.job()}
	var gates *gate.Gates
	if cfg.WorkGate != "" {
		blobs, err := account.OpenBlobs(&observed)
		if err != nil {
			return nil, err
		}
		if gates, _, err = openGates(blobs, signals, log); err != nil {
			return nil, err
		}
		g := gateFunctions{gates: gates, limits: &limits{}}
		jobs = append(jobs, job{run: gates.Run, facts: g.facts, problems: g.problems})
	}
	batches, err := newBatches(cfg, account, observed, 0, signals, gates, c.meter, log)
	if err != nil {
		return nil, err
	}
	rows := openInstanceTable(account, observed, log)
	jobs = append(jobs, storageJob(account, observed, rows))
	scale, err := openScaleStores(account, observed)
	if err != nil {
		return nil, err
	}
	w, err := newWorker(cfg, c, batches, queues, ofQueues(signals), rows, scale, log, jobs...)
	if err != nil {
		return nil, err
	}
	ledger := newLedger(account, observed, bill.Process{Name: w.name, Bus: signals != nil}, counter, nil, log)
	w.support, w.close = append(w.support, ledger.Run), append(w.close, ledger.Close)
	if relaying.syphon != nil {
		w.work = append(w.work, relaying.follow)
	}
	return w, nil
}

// newWorker wires a worker. It works for channels with the store; batches have
// their own.
func newWorker(cfg config.Config, c channelFunctions, b *batchFunctions, store queue.Store, signals queue.Signals, rows table.Store, scale scaleStores, log *slog.Logger, jobs ...job) (*worker, error) {
	w := &worker{probes: &probes{}, log: log}
	members := newMembers(rows, instances.Worker, time.Now(), func() []job { return jobs }, log)
	w.name = members.Name()
	scaling, err := newScalingOn(cfg, scale, func() []job { return jobs }, members, log)
	if err != nil {
		return nil, err
	}
	opened, err := b.open()
	if err != nil {
		return nil, err
	}
	parcels, err := b.listener(cfg, opened, probedStore{opened.queues, w.probes}, signals, scaling.check.HandsFor)
	if err != nil {
		return nil, err
	}
	listener, err := queue.NewListener(probedStore{store, w.probes}, []string{names.CleanupQueue}, hostMessages{c.letters},
		func(ctx context.Context, d queue.Delivery[string]) error {
			began := time.Now()
			defer func() { c.meter.ended(began) }()
			// The deletion stops before the deadline, and continues with another
			// message.
			ctx, cancel := context.WithTimeout(ctx, cfg.InvocationTimeout)
			defer cancel()
			return c.process(ctx, d)
		},
		&queue.ListenerOptions{Signals: signals, HandsFor: scaling.check.HandsFor, Lease: cfg.WorkerLease, MaxIdle: cfg.IdlePoll, Drain: cfg.WorkerDrain, Log: log})
	if err != nil {
		return nil, err
	}
	jobs = append(jobs, job{run: c.run, problems: c.letters.problems, sample: c.sample, wake: c.wake}, job{run: b.run, problems: b.problems, sample: b.sample, wake: b.wake, facts: b.facts},
		job{facts: c.meter.facts}, job{facts: workOf(listener)}, job{facts: workOf(parcels)})
	jobs = append(jobs, members.job(), job{problems: scaling.check.Problems})
	w.probes.metrics = &workerMetrics{sampler{jobs: jobs, members: members}}
	sweep := c.sweep()
	rules := make(chan struct{}) // closed when those for hands are known, or cannot be read
	afterRules := func(run func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error { <-rules; return run(ctx) }
	}
	w.work = []func(context.Context) error{
		func(ctx context.Context) error { defer close(rules); scaling.check.Begin(ctx); return nil },
		afterRules(listener.Run), afterRules(parcels.Run),
		sweepOften("cannot sweep channels; trying again later", log, func(ctx context.Context) error { return sweep(ctx, customhandler.Tick{}) }),
		sweepOften("cannot sweep batches; trying again later", log, b.sweep),
	}
	w.work = append(w.work, scaling.check.Loop)
	if b.gate != nil {
		w.work = append(w.work, b.gate.follow)
	}
	for _, j := range jobs {
		if j.run != nil {
			w.support = append(w.support, j.run)
		}
		if j.close != nil {
			w.close = append(w.close, j.close)
		}
	}
	return w, nil
}

// workOf reports the messages that a listener works on and worked on.
func workOf[T any](l *queue.Listener[T]) func(*instances.Report) {
	return func(r *instances.Report) {
		for _, s := range l.State() {
			if s.Hands > 0 {
				r.Running[s.Queue] = int64(s.Hands)
			}
			r.Work[s.Queue] = instances.Work{
				Receives: s.Receives, EmptyReceives: s.EmptyReceives, FailedReceives: s.FailedReceives,
				Done: s.Done - s.Repeated, Repeated: s.Repeated, Retried: s.Retried, Returned: s.Returned, DeadLetters: s.DeadLetters, Lost: s.LeasesLost,
				Ages: s.Ages, AgeSeconds: s.AgeSeconds, HandSeconds: s.HandSeconds, Latencies: s.Latencies, Pool: int64(s.Pool),
			}
		}
	}
}

// listener returns the listener of a worker for the queues of batches. Those of
// parcels are not received from while the work gate is closed.
func (b *batchFunctions) listener(cfg config.Config, opened *openBatches, store queue.Store, signals queue.Signals, handsFor func(int64, time.Duration) int) (*queue.Listener[*workMessage], error) {
	o := &queue.ListenerOptions{Signals: signals, HandsFor: handsFor, Lease: cfg.WorkerLease, MaxIdle: cfg.IdlePoll, Drain: cfg.WorkerDrain, Log: b.log}
	// Items that fail do not fail their message, and an attempt during an outage
	// of storage does not count, so few messages have several attempts.
	o.MaxAttempts = 10
	if b.gate != nil {
		o.Admit = func(name string) (bool, <-chan struct{}) {
			if name == work.ResultsQueue {
				return true, nil
			}
			return b.gate.admit()
		}
	}
	codec := workMessages{queue.Packed{Claims: opened.claims}, opened.batches, b.letters}
	return queue.NewListener(store, append(workQueues(cfg.Partitions), work.ResultsQueue), codec,
		func(ctx context.Context, d queue.Delivery[*workMessage]) error {
			began := time.Now()
			defer func() { b.meter.ended(began) }()
			// What is not done before the deadline continues with another message.
			ctx, cancel := context.WithTimeout(ctx, cfg.InvocationTimeout)
			defer cancel()
			return b.process(ctx, opened.batches, d)
		}, o)
}

// sweepOften returns a function that sweeps until ctx ends, first at a random
// time within the interval. Each worker and the timers of the Functions app do
// it: sweeping twice is harmless and costs a few requests, less than to agree on
// one process.
func sweepOften(cannot string, log *slog.Logger, sweep func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for wait := rand.N(sweepEvery); ; wait = sweepEvery*9/10 + rand.N(sweepEvery/5) {
			if table.Pause(ctx, wait); ctx.Err() != nil {
				return nil
			}
			one, cancel := context.WithTimeout(ctx, sweepEvery/2)
			if err := sweep(one); err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, cannot, "error", err.Error())
			}
			cancel()
		}
	}
}

// run works until ctx ends or a part of the worker fails.
func (w *worker) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	supported, endSupport := context.WithCancel(context.WithoutCancel(ctx))
	defer endSupport()
	failed := make(chan error, len(w.work)+len(w.support))
	start := func(running *sync.WaitGroup, ctx context.Context, parts []func(context.Context) error) {
		for _, part := range parts {
			running.Go(func() {
				if err := part(ctx); err != nil {
					failed <- err
					stop()
				}
			})
		}
	}
	var working, supporting sync.WaitGroup
	start(&supporting, supported, w.support)
	start(&working, ctx, w.work)
	<-ctx.Done()
	w.probes.stop()
	w.log.Info("stopping; messages in progress may finish")
	working.Wait()
	endSupport()
	supporting.Wait()
	for _, closePart := range w.close {
		if err := closePart(context.WithoutCancel(ctx)); err != nil { // each limits itself
			w.log.Warn("cannot close cleanly", "error", err)
		}
	}
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
