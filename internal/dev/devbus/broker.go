package devbus

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// Broker is a Service Bus namespace. Its methods may be called concurrently.
type Broker struct {
	namespace string
	log       *slog.Logger

	mu      sync.Mutex // guards all that follows, and what hangs on it
	closed  bool
	stops   []context.CancelFunc // of Serve
	conns   []*conn
	queues  map[string]*queue // by key of their paths; subscriptions and dead letters, too
	topics  map[string]*topic
	alarms  alarms
	faults  []*Fault
	stats   Stats
	scratch []byte // for messages being rendered
	created time.Time

	serving sync.WaitGroup // goroutines of connections
}

// Options change what New makes. The zero value of each field is its default.
type Options struct {
	Namespace string       // what clients and administrators are told; default "devbus"
	Log       *slog.Logger // hears of clients that break the protocol; default: nobody
}

// New makes an empty broker. Nothing runs before the first Dial, Serve or
// entity that can expire; Close ends it all.
func New(o *Options) *Broker {
	if o == nil {
		o = &Options{}
	}
	b := &Broker{
		namespace: o.Namespace,
		log:       o.Log,
		queues:    map[string]*queue{},
		topics:    map[string]*topic{},
		created:   time.Now(),
	}
	b.alarms.mu = &b.mu
	if b.namespace == "" {
		b.namespace = "devbus"
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	return b
}

// Dial connects to the broker without a network. While dialling is refused, or
// after Close, every use of the connection is an error.
func (b *Broker) Dial() net.Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.pick(RefuseDial, "") != nil {
		return refusedConn{}
	}
	client, server := net.Pipe()
	b.serving.Go(func() { b.serve(context.Background(), server) })
	return client
}

// refusedConn is what a dialer gets that cannot return an error.
type refusedConn struct{ net.Conn }

var errRefused = &net.OpError{Op: "dial", Net: "pipe", Err: syscall.ECONNREFUSED}

func (refusedConn) Read([]byte) (int, error)         { return 0, errRefused }
func (refusedConn) Write([]byte) (int, error)        { return 0, errRefused }
func (refusedConn) Close() error                     { return nil }
func (refusedConn) SetDeadline(time.Time) error      { return nil }
func (refusedConn) SetReadDeadline(time.Time) error  { return nil }
func (refusedConn) SetWriteDeadline(time.Time) error { return nil }

// Serve accepts connections until ctx ends or the broker is closed, which is
// no error. It closes the listener and the connections it accepted, and
// returns when these have ended.
func (b *Broker) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	b.mu.Lock()
	if b.closed {
		cancel()
	} else {
		b.stops = append(b.stops, cancel)
	}
	b.mu.Unlock()
	defer context.AfterFunc(ctx, func() { ln.Close() })()

	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			serving.Go(func() { b.serve(ctx, nc) })
		case ctx.Err() != nil:
			return nil
		default:
			ln.Close()
			return fmt.Errorf("accept on %v: %w", ln.Addr(), err)
		}
	}
}

// Close ends all connections, and everything that was to happen later. When it
// returns, no goroutine is left of those that Dial made; Serve returns by
// itself.
func (b *Broker) Close() {
	b.mu.Lock()
	b.closed = true
	b.alarms.stop()
	for _, stop := range b.stops {
		stop()
	}
	for _, c := range b.conns {
		c.w.kill()
	}
	b.mu.Unlock()
	b.alarms.running.Wait()
	b.serving.Wait()
}

// DropConnections ends every connection without a word, as a restart of the
// service or a broken network would.
func (b *Broker) DropConnections() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.cut()
	}
}
