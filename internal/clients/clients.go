// Package clients opens clients of Service Bus and of Azure itself by the
// settings, and makes no request.
package clients

import (
	"fmt"

	"kennel/internal/azure/containerapp"
	"kennel/internal/azure/requests"
	"kennel/internal/azure/servicebus"
	"kennel/internal/config"
	"kennel/internal/names"
	"kennel/relay"
)

// Bus returns the signals of this process, or nil without Service Bus.
func Bus(bus config.ServiceBus, counter *requests.Counter) (*servicebus.Signals, error) {
	if !bus.Given() {
		return nil, nil
	}
	return Signals(bus, counter)
}

// Signals returns the signals of a namespace, whose operations are counted
// unless counter is nil. It makes no request.
func Signals(bus config.ServiceBus, counter *requests.Counter) (*servicebus.Signals, error) {
	return servicebus.Namespace{ConnectionString: bus.ConnectionString, Host: bus.Namespace,
		ManagedIdentity: bus.ManagedIdentity, ClientID: bus.ClientID}.OpenSignals(names.SignalsTopic, &servicebus.Options{Requests: counter})
}

// Relay opens a namespace for the relay. Its operations are counted unless
// counter is nil.
func Relay(bus config.ServiceBus, counter *requests.Counter) (*servicebus.Relay, error) {
	return servicebus.Namespace{ConnectionString: bus.ConnectionString, Host: bus.Namespace,
		ManagedIdentity: bus.ManagedIdentity, ClientID: bus.ClientID}.OpenRelay(&servicebus.Options{Requests: counter})
}

// BacklogQueues returns the names of the queues of the backlog. infra/ creates
// the same.
func BacklogQueues(cfg config.Config) []string {
	return relay.BacklogQueues(cfg.ServiceBus.Name(), cfg.BacklogQueues)
}

// ScaleTarget opens the container app of KENNEL_SCALE_TARGET and makes no
// request.
func ScaleTarget(cfg config.Config) (*containerapp.App, error) {
	target, err := containerapp.Open(cfg.ScaleTarget, &containerapp.Options{ManagedIdentity: cfg.Storage.ManagedIdentity, ClientID: cfg.Storage.ClientID})
	if err != nil {
		return nil, fmt.Errorf("invalid setting: KENNEL_SCALE_TARGET: %w", err)
	}
	return target, nil
}
