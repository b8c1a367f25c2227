package devbus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"kennel/internal/loopback"
)

// Local is a broker on a local address. Like a namespace, it serves messages
// and administration at the same address, and in addition the control of
// faults.
type Local struct {
	*Broker

	listener net.Listener
	web      *http.Server
	requests chan net.Conn // for web
	done     <-chan struct{}
	stop     context.CancelFunc
	serving  sync.WaitGroup
}

// Listen starts an empty broker on a port of 127.0.0.1.
func Listen(options *Options) (*Local, error) {
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", options.withDefaults().Port))
	if err != nil {
		return nil, fmt.Errorf("open a port for the development bus: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background()) // ends with Close
	l := &Local{Broker: New(options), listener: listener, requests: make(chan net.Conn), done: ctx.Done(), stop: stop}
	faults := l.faultHandler()
	l.web = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isFaultRequest(r) {
			// A page that a developer has open must not cause an outage.
			if refusal := loopback.Refusal(r); refusal != "" {
				http.Error(w, refusal, http.StatusForbidden)
				return
			}
			faults.ServeHTTP(w, r)
		} else {
			l.serveHTTP(w, r)
		}
	})}
	l.serving.Go(func() { l.accept(ctx) })
	l.serving.Go(func() { l.web.Serve((*webListener)(l)) })
	return l, nil
}

// ConnectionString returns the connection string for the SDKs' clients. The
// broker accepts any key.
func (l *Local) ConnectionString() string {
	return fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=none;UseDevelopmentEmulator=true;",
		l.listener.Addr(), l.namespace)
}

// FaultsURL returns the address at which faults are controlled over HTTP.
func (l *Local) FaultsURL() string { return "http://" + l.listener.Addr().String() + "/faults" }

// Close closes the broker, all connections and the port.
func (l *Local) Close() {
	l.stop()
	l.listener.Close()
	l.Broker.Close()
	l.web.Close()
	l.serving.Wait()
}

func (l *Local) accept(ctx context.Context) {
	for {
		nc, err := l.listener.Accept()
		switch {
		case err == nil:
			l.serving.Go(func() { l.dispatch(ctx, nc) })
		case errors.Is(err, net.ErrClosed):
			return
		default: // transient, such as too many open files
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

// firstBytes is how long a client may take to send the first four bytes.
const firstBytes = 10 * time.Second

// dispatch serves AMQP on a connection whose first four bytes are "AMQP", and
// HTTP on any other.
func (l *Local) dispatch(ctx context.Context, nc net.Conn) {
	nc.SetReadDeadline(time.Now().Add(firstBytes))
	reader := bufio.NewReader(nc)
	closes := context.AfterFunc(ctx, func() { nc.Close() })
	begin, err := reader.Peek(4)
	if err != nil || !closes() {
		nc.Close()
		return
	}
	nc.SetReadDeadline(time.Time{})
	c := begunConn{nc, reader}
	if string(begin) == "AMQP" {
		l.serve(c)
		return
	}
	select {
	case l.requests <- c:
	case <-ctx.Done():
		nc.Close()
	}
}

// begunConn is a connection whose first bytes are buffered in reader.
type begunConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c begunConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

// webListener accepts the connections that do not begin with "AMQP".
type webListener Local

func (l *webListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.requests:
		return nc, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *webListener) Close() error {
	l.stop()
	return nil
}

func (l *webListener) Addr() net.Addr { return l.listener.Addr() }
