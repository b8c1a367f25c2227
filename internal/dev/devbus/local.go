package devbus

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// Local is a broker on an address of this machine, where it is both used and
// administered, as a namespace is at its own.
type Local struct {
	*Broker

	listener net.Listener
	web      *http.Server
	serving  sync.WaitGroup
}

// Listen makes an empty broker on a free port of 127.0.0.1.
func Listen(o *Options) (*Local, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a port for the development bus: %w", err)
	}
	l := &Local{Broker: New(o), listener: listener}
	l.web = &http.Server{Handler: l.Admin()}
	messages, requests := fork(listener)
	// Neither ends before Close, which takes their listener away.
	l.serving.Go(func() { l.Serve(context.Background(), messages) })
	l.serving.Go(func() { l.web.Serve(requests) })
	return l, nil
}

// ConnectionString is for the SDKs' clients of the broker. Any key would do:
// it opens nothing.
func (l *Local) ConnectionString() string {
	return fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=none;UseDevelopmentEmulator=true;",
		l.listener.Addr(), l.namespace)
}

// Close ends the broker and gives the port back.
func (l *Local) Close() {
	l.Broker.Close()
	l.web.Close()
	l.listener.Close()
	l.serving.Wait()
}
