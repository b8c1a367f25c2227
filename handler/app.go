package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/azure/servicebus"
	"kennel/internal/config"
	"kennel/internal/customhandler"
)

// The containers hold one blob per sequence, and one per gate. The first is
// named as in the article, so that its stores can be taken over as they are.
const (
	numbersContainer = "uniqueids"
	gatesContainer   = "globalflags"
)

// signalsTopic carries the signals of gates to all instances.
const signalsTopic = "signals"

// app is the wired program.
type app struct {
	host      *customhandler.App
	sequences *ids.Set
	gates     *gate.Gates
	signals   *servicebus.Signals // nil without a Service Bus
}

// newApp wires everything and asks nothing of storage.
func newApp(cfg config.Config, log *slog.Logger) (*app, error) {
	account := azure.Account{
		ConnectionString: cfg.Storage.ConnectionString,
		BlobURL:          cfg.Storage.BlobURL,
		QueueURL:         cfg.Storage.QueueURL,
		TableURL:         cfg.Storage.TableURL,
		ManagedIdentity:  cfg.Storage.ManagedIdentity,
		ClientID:         cfg.Storage.ClientID,
	}
	counter := &requests.Counter{}
	blobs, err := account.OpenBlobs(&azure.Options{Requests: counter})
	if err != nil {
		return nil, err
	}
	numbers := azure.NewSequences(blobs, numbersContainer)
	sequences, err := ids.NewSet(numbers, &ids.Options{
		RangeSize:  int64(cfg.RangeSize),
		RangeLasts: cfg.RangeLasts,
		MaxWait:    cfg.ReserveTimeout,
	})
	if err != nil {
		return nil, err
	}
	flags := azure.NewGates(blobs, gatesContainer)
	signals, err := openSignals(cfg.ServiceBus)
	if err != nil {
		return nil, err
	}
	gateOptions := &gate.Options{Log: log}
	if signals != nil {
		gateOptions.Signals = signals
	}
	gates, err := gate.New(flags, gateOptions)
	if err != nil {
		return nil, err
	}
	host, err := customhandler.New(&customhandler.Options{
		Log:     log,
		Timeout: cfg.InvocationTimeout,
		MaxBody: maxBody,
		Drain:   cfg.Drain,
	})
	if err != nil {
		return nil, err
	}
	a := &app{
		host:      host,
		sequences: sequences,
		gates:     gates,
		signals:   signals,
	}
	u := unleash{gates: gates, signedIn: cfg.SignedIn}
	a.host.HTTP("NextOrderId", "req", nextOrderID(sequences), "POST /api/sequences/{sequence}/next")
	a.host.HTTP("Unleash", "req", u.state(), "GET /api/gates/{gate}")
	a.host.HTTP("Unleash", "req", u.release(), "POST /api/gates/{gate}/release")
	a.host.HTTP("Unleash", "req", u.shut(), "POST /api/gates/{gate}/close")
	a.host.HTTP("Unleash", "req", u.wait(), "GET /api/gates/{gate}/wait")
	c := openChannels(account, counter, log)
	c.register(a.host)
	a.host.HTTP("Health", "req", health(), "GET /api/health")
	a.host.HTTP("Status", "req", status(cfg, probes{probeBlobs(numbers), c.tables, c.queues}, sequences, gates, counter, time.Now()), "GET /api/status")
	return a, nil
}

// maxBody bounds what a caller may send to any function of this app.
const maxBody = 1 << 20

// run serves until ctx ends, or until serving ends by itself. Whoever waits at
// a gate is sent away as soon as ctx ends, so that nobody is cut off.
func (a *app) run(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var watching sync.WaitGroup
	var watched error
	watching.Go(func() {
		if watched = a.gates.Run(ctx); watched != nil {
			stop()
		}
	})
	err := a.host.Serve(ctx, listener)
	stop()
	watching.Wait()
	return errors.Join(err, watched)
}

// close gives back what this process holds.
func (a *app) close(ctx context.Context) error {
	err := a.sequences.Close(ctx)
	if a.signals != nil {
		a.signals.Close()
	}
	return err
}

// openSignals returns nil without a Service Bus: gates are polled then.
func openSignals(b config.ServiceBus) (*servicebus.Signals, error) {
	if !b.Given() {
		return nil, nil
	}
	bus := servicebus.Namespace{
		ConnectionString: b.ConnectionString,
		Host:             b.Namespace,
		ManagedIdentity:  b.ManagedIdentity,
		ClientID:         b.ClientID,
	}
	return bus.OpenSignals(signalsTopic, nil)
}
