package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"kennel/instances"
	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/version"
	"kennel/queue"
	"kennel/table"
)

// defaultProbes is where a worker serves its health.
const defaultProbes = "127.0.0.1:8080"

// sweepEvery is the interval of a worker's sweeps, which differs by up to a
// tenth. It is that of the timer in functions/ChannelSweep.
const sweepEvery = 5 * time.Minute

// worker processes the app's queues without a Functions host. It serves no part
// of the API.
type worker struct {
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
		return fmt.Errorf("open the port of /healthz and /readyz; choose another one with --listen: %w", err)
	}
	w, err := openWorker(cfg, log)
	if err != nil {
		port.Close()
		return err
	}
	w.support = append(w.support, func(ctx context.Context) error { return w.probes.serve(ctx, port, log) })
	log.Info("ready", "kind", instances.Worker, "address", port.Addr().String(), "queues", cleanupQueue, "version", version.Read().Version)
	err = w.run(ctx)
	log.Info("stopped")
	return err
}

// openWorker connects a worker to storage and sends no request.
func openWorker(cfg config.Config, log *slog.Logger) (*worker, error) {
	account, counter, outcomes := azure.Account(cfg.Storage), &requests.Counter{}, &requests.Outcomes{}
	observed := azure.Options{Requests: counter, Outcomes: outcomes}
	signals, err := openBus(cfg.ServiceBus)
	if err != nil {
		return nil, err
	}
	ofChannels := observed
	ofChannels.Job = "channels"
	c, queues, err := openChannels(account, &ofChannels, signals, &meter{}, log)
	if err != nil {
		return nil, fmt.Errorf("a worker needs the tables and queues of the storage account: %w", err)
	}
	rows := openInstanceTable(account, observed, log)
	return newWorker(cfg, c, queues, ofQueues(signals), rows, log,
		busJob(signals), job{facts: requestFacts(counter)}, storageJob(account, observed, rows))
}

// newWorker wires a worker.
func newWorker(cfg config.Config, c channelFunctions, store queue.Store, signals queue.Signals, rows table.Store, log *slog.Logger, jobs ...job) (*worker, error) {
	w := &worker{probes: &probes{}, log: log}
	listener, err := queue.NewListener(probedStore{store, w.probes}, []string{cleanupQueue}, hostMessages{c.letters},
		func(ctx context.Context, d queue.Delivery[string]) error {
			began := time.Now()
			defer func() { c.meter.ended(began) }()
			// The deletion stops before the deadline, and continues with another
			// message.
			ctx, cancel := context.WithTimeout(ctx, cfg.InvocationTimeout)
			defer cancel()
			return c.process(ctx, d)
		},
		&queue.ListenerOptions{Signals: signals, Lease: cfg.WorkerLease, Drain: cfg.WorkerDrain, Log: log})
	if err != nil {
		return nil, err
	}
	jobs = append(jobs, job{run: c.run, problems: c.letters.problems}, job{facts: c.meter.facts}, job{facts: handsOf(listener)})
	members := newMembers(rows, instances.Worker, time.Now(), func() []job { return jobs }, log)
	jobs = append(jobs, members.job())
	w.work = []func(context.Context) error{listener.Run, c.sweepOften}
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

// handsOf reports the messages that are worked on.
func handsOf[T any](l *queue.Listener[T]) func(*instances.Report) {
	return func(r *instances.Report) {
		for _, s := range l.State() {
			if s.Hands > 0 {
				r.Running[s.Queue] = int64(s.Hands)
			}
		}
	}
}

// sweepOften sweeps until ctx ends, first at a random time within the interval.
// Each worker and the timer of the Functions app do it: sweeping twice is
// harmless and costs two requests, less than to agree on one process.
func (c channelFunctions) sweepOften(ctx context.Context) error {
	sweep := c.sweep()
	for wait := rand.N(sweepEvery); ; wait = sweepEvery*9/10 + rand.N(sweepEvery/5) {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		one, cancel := context.WithTimeout(ctx, sweepEvery/2)
		if err := sweep(one, customhandler.Tick{}); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "cannot sweep channels; trying again later", "error", err.Error())
		}
		cancel()
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
