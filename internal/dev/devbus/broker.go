package devbus

import (
	"cmp"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// Broker is a Service Bus namespace. Its methods may be called concurrently.
type Broker struct {
	namespace  string
	premium    bool
	maxMessage int64 // of entities whose settings do not say otherwise, in bytes
	log        *slog.Logger

	mu        sync.Mutex // guards the following fields and all they refer to
	closed    bool
	conns     []*conn
	queues    map[string]*queue // by key(path); includes subscriptions and dead-letter queues
	topics    map[string]*topic
	alarms    alarms
	faults    []*fault
	lastFault int // id
	stats     Stats
	scratch   []byte    // for messages being rendered
	created   time.Time // with a monotonic reading

	serving sync.WaitGroup // goroutines of connections
}

// Options are the optional parts of a broker; nil and zero fields mean the
// defaults.
type Options struct {
	Namespace string       // the name that clients and administrators see; default "devbus"
	Premium   bool         // the tier, which decides the limits of sizes; default: standard
	Port      int          // of [Listen], on 127.0.0.1; default: any free one
	Log       *slog.Logger // for protocol violations by clients; default: no log
}

func (o *Options) withDefaults() Options {
	var opt Options
	if o != nil {
		opt = *o
	}
	opt.Namespace = cmp.Or(opt.Namespace, "devbus")
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	return opt
}

// New returns an empty broker. It starts no goroutine and no timer before the
// first Dial or the first entity that can expire. Close stops them.
func New(options *Options) *Broker {
	opt := options.withDefaults()
	b := &Broker{
		namespace:  opt.Namespace,
		premium:    opt.Premium,
		maxMessage: standardMaxMessage,
		log:        opt.Log,
		queues:     map[string]*queue{},
		topics:     map[string]*topic{},
		created:    time.Now(),
	}
	if b.premium {
		b.maxMessage = premiumMaxMessage
	}
	b.alarms.mu = &b.mu
	return b
}

// Dial connects to the broker without a network. While a fault refuses
// connections, and after Close, every use of the connection returns an error.
func (b *Broker) Dial() net.Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.pick(RefuseDial, "") != nil {
		return refusedConn{}
	}
	client, server := net.Pipe()
	b.serving.Go(func() { b.serve(server) })
	return client
}

// refusedConn is the result of a refused Dial, which cannot return an error.
type refusedConn struct{ net.Conn }

var errRefused = &net.OpError{Op: "dial", Net: "pipe", Err: syscall.ECONNREFUSED}

func (refusedConn) Read([]byte) (int, error)         { return 0, errRefused }
func (refusedConn) Write([]byte) (int, error)        { return 0, errRefused }
func (refusedConn) Close() error                     { return nil }
func (refusedConn) SetDeadline(time.Time) error      { return nil }
func (refusedConn) SetReadDeadline(time.Time) error  { return nil }
func (refusedConn) SetWriteDeadline(time.Time) error { return nil }

// Close ends all connections and cancels all future events. It returns after
// the goroutines that Dial started have ended.
func (b *Broker) Close() {
	b.mu.Lock()
	b.closed = true
	b.alarms.stop()
	for _, c := range b.conns {
		c.w.kill()
	}
	b.mu.Unlock()
	b.alarms.running.Wait()
	b.serving.Wait()
}

// DropConnections ends every connection without an AMQP close, as a restart of
// the service or a network failure does.
func (b *Broker) DropConnections() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.cut()
	}
}
