package azurestore

import (
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"kennel/gate"
	"kennel/internal/azure/servicebus"
	"kennel/queue"
	"kennel/relay"
)

// Signals announces the changes of gates, and with Queues the work in queues, on
// a Service Bus topic, which must exist. Without it gates and queues are polled.
type Signals struct {
	gate.Signals
	queues queue.Signals
	close  func()
}

// NewSignals returns the signals of a topic in the namespace with a host name
// such as NAME.servicebus.windows.net. Each process that listens has a
// subscription of its own, which Service Bus deletes when the process ends. To
// create it, the credential needs the role Azure Service Bus Data Owner.
func NewSignals(host, topic string, credential azcore.TokenCredential) (*Signals, error) {
	if err := checkCredential("Service Bus", credential); err != nil {
		return nil, err
	}
	return openSignals(servicebus.Namespace{Host: host}, topic, &servicebus.Options{Credential: credential})
}

// NewSignalsFromConnectionString is [NewSignals] for the namespace that a
// connection string names.
func NewSignalsFromConnectionString(connection, topic string) (*Signals, error) {
	return openSignals(servicebus.Namespace{ConnectionString: connection}, topic, nil)
}

func openSignals(namespace servicebus.Namespace, topic string, options *servicebus.Options) (*Signals, error) {
	signals, err := namespace.OpenSignals(topic, options)
	if err != nil {
		return nil, err
	}
	return &Signals{signals, signals.Queues(), signals.Close}, nil
}

// Queues returns the signals of queues, for the options of a publisher and of a
// listener. They use the connections and the subscription of s.
func (s *Signals) Queues() queue.Signals { return s.queues }

// Close closes the connections that signals were published on. No signal can be
// published after it.
func (s *Signals) Close() { s.close() }

// Relay is a Service Bus namespace for package relay: the primary or the
// secondary one, and the administration of the backlog queues of the secondary.
// It keeps no connection; senders and syphons have their own and close them. It
// is safe for concurrent use. Its messages are those of module azservicebus, see
// package relay for what follows from that.
type Relay struct {
	relay.Namespace
	relay.Queues
}

// NewRelay returns the namespace with a host name such as
// NAME.servicebus.windows.net. On the primary, the credential needs the role
// Azure Service Bus Data Sender. On the secondary it needs Azure Service Bus Data
// Owner, to create the backlog queues, or Data Sender and Data Receiver if they
// exist.
func NewRelay(host string, credential azcore.TokenCredential) (*Relay, error) {
	if err := checkCredential("Service Bus", credential); err != nil {
		return nil, err
	}
	return openRelay(servicebus.Namespace{Host: host}, &servicebus.Options{Credential: credential})
}

// NewRelayFromConnectionString is [NewRelay] for the namespace that a connection
// string names.
func NewRelayFromConnectionString(connection string) (*Relay, error) {
	return openRelay(servicebus.Namespace{ConnectionString: connection}, nil)
}

func openRelay(namespace servicebus.Namespace, options *servicebus.Options) (*Relay, error) {
	r, err := namespace.OpenRelay(options)
	if err != nil {
		return nil, err
	}
	return &Relay{r, r}, nil
}
