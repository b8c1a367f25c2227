package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"

	"kennel/internal/devbus"
)

// signalsTopic carries the signals of gates. In Azure the infrastructure has
// it; here nobody else would make it.
const signalsTopic = "signals"

// A bus is a development Service Bus namespace on a port of this machine,
// where it is both used and administered.
type bus struct {
	connection string
	broker     *devbus.Broker
	stop       func() // ends it, with all that is in it
}

// startBus starts an empty bus of that name.
func startBus(name string) (*bus, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a port for the development bus: %w", err)
	}
	b := &bus{broker: devbus.New(&devbus.Options{Namespace: name})}
	// Any key will do: it opens nothing.
	b.connection = fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=none;UseDevelopmentEmulator=true;",
		listener.Addr(), name)

	messages, requests := fork(listener)
	web := &http.Server{Handler: b.broker.Admin()}
	var serving sync.WaitGroup
	// Neither ends before stop, which takes their listener away.
	serving.Go(func() { b.broker.Serve(context.Background(), messages) })
	serving.Go(func() { web.Serve(requests) })
	b.stop = func() {
		b.broker.Close()
		web.Close()
		listener.Close()
		serving.Wait()
	}
	return b, nil
}

// buses are the namespace of an app, and the one that stands in for it.
type buses struct{ primary, secondary *bus }

func startBuses() (*buses, error) {
	primary, err := startBus("primary")
	if err != nil {
		return nil, err
	}
	secondary, err := startBus("secondary")
	if err != nil {
		primary.stop()
		return nil, err
	}
	b := &buses{primary, secondary}
	if err := primary.broker.CreateTopic(signalsTopic, nil); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

func (b *buses) stop() {
	b.primary.stop()
	b.secondary.stop()
}
