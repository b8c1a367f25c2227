package main

import (
	"context"
	"errors"
	"time"

	"kennel/channels"
	"kennel/internal/azure/requests"
	"kennel/internal/azure/servicebus"
	"kennel/internal/config"
	"kennel/internal/names"
	"kennel/queue"
)

// openBus returns the signals of this process, or nil without Service Bus.
func openBus(bus config.ServiceBus, counter *requests.Counter) (*servicebus.Signals, error) {
	if !bus.Given() {
		return nil, nil
	}
	return openSignals(bus, counter)
}

// openSignals returns the signals of a namespace, whose operations are counted
// unless counter is nil. It makes no request.
func openSignals(bus config.ServiceBus, counter *requests.Counter) (*servicebus.Signals, error) {
	return servicebus.Namespace{ConnectionString: bus.ConnectionString, Host: bus.Namespace,
		ManagedIdentity: bus.ManagedIdentity, ClientID: bus.ClientID}.OpenSignals(names.SignalsTopic, &servicebus.Options{Requests: counter})
}

// ofQueues returns the signals of queues, or nil without Service Bus.
func ofQueues(s *servicebus.Signals) queue.Signals {
	if s == nil {
		return nil
	}
	return s.Queues()
}

// busJob closes the signals.
func busJob(s *servicebus.Signals) job {
	if s == nil {
		return job{}
	}
	return job{close: func(context.Context) error { s.Close(); return nil }}
}

// announced is an outbox whose messages wake the workers. A signal is sent after
// the call and may fail: a worker then finds the message when it polls.
type announced struct {
	channels.Outbox
	publisher *queue.Publisher
	queue     string
}

// Put implements [channels.Outbox]. It signals also a message that is received
// later, because a process that is killed until then would not; the worker
// polls as long as there are messages. After an error the message may exist.
func (a announced) Put(ctx context.Context, text string, delay time.Duration) (receipt string, err error) {
	receipt, err = a.Outbox.Put(ctx, text, delay)
	if !errors.Is(err, channels.ErrRefused) {
		a.publisher.Announce(a.queue)
	}
	return receipt, err
}
