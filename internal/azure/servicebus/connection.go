package servicebus

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"kennel/internal/azure/requests"
	"kennel/relay"
)

// Relay implements [relay.Namespace] and [relay.Queues].
type Relay struct{ connector *connector }

// OpenRelay checks the namespace and returns what package relay needs of it. It
// makes no request.
func (n Namespace) OpenRelay(options *Options) (*Relay, error) {
	c, err := n.open(options)
	if err != nil {
		return nil, err
	}
	c.job = "relay"
	return &Relay{c}, nil
}

// Connect implements [relay.Namespace].
func (r *Relay) Connect() (relay.Connection, error) {
	return &Connection{connector: r.connector, lines: make(map[string]*line)}, nil
}

// Connection implements [relay.Connection]. It has one connection of AMQP for
// each entity that it sends to, and one for each that it receives from. After a
// silent loss of the network it may not work for a minute, but a new Connection
// does.
//
// A message goes out at most once in each send. A send that Service Bus answers
// with the outcome "released" or "modified" stored nothing, and fails as
// relay.Unavailable.
type Connection struct {
	connector *connector

	mu      sync.Mutex // never held during a request
	lines   map[string]*line
	closed  bool
	closing sync.WaitGroup // lines that are being closed; begun while mu is held
}

var errConnectionClosed = &relay.Error{Class: relay.Unavailable, Unsent: true, Err: errors.New("the connection to Service Bus is closed")}

// Send implements [relay.Outgoing]. A message without an id gets a random one.
func (c *Connection) Send(ctx context.Context, entity string, m *relay.Message) error {
	m, err := prepared(m)
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		detached := false
		err := c.call("send to "+entity, entity, func(l *line) (err error) {
			detached, err = c.sendOn(ctx, l, m)
			return err
		})
		// The bus may have detached the sender long before. It is the SDK's
		// way, too, to attach it and try again.
		if !detached || !first || ctx.Err() != nil {
			return err
		}
	}
}

// sendOn sends a message on a line. If it fails, it reports whether the bus had
// detached the sender, so that the message was certainly not sent.
func (c *Connection) sendOn(ctx context.Context, l *line, m *relay.Message) (detached bool, _ error) {
	sender, err := l.outlet(ctx)
	if err != nil {
		return false, notSent(c.notAttached(ctx, l, err))
	}
	before := l.transfers.Load()
	err = l.do(ctx, l.life, func(ctx context.Context) error { return sender.SendAMQPAnnotatedMessage(ctx, m, nil) })
	if err == nil {
		c.connector.count(requests.Send, 1)
		return false, nil
	}
	ended := endsLink(err) || l.life.Err() != nil
	if ended {
		c.replace(l)
	}
	if ended && l.transfers.Load() == before {
		return true, notSent(classify(ctx, err))
	}
	if isRejection(err) {
		return false, notSent(classify(ctx, err))
	}
	return false, classify(ctx, err)
}

// Ping implements [relay.Outgoing]: it connects, signs in and attaches a
// sender, on a new connection. The SDK shows only in a send whether the bus then
// grants credit, so the relay's first send after it is a trial.
func (c *Connection) Ping(ctx context.Context, entity string) error {
	return c.call(rand.Text(), entity, func(l *line) error {
		defer c.replace(l)
		if _, err := l.outlet(ctx); err != nil {
			return classify(ctx, err)
		}
		return nil
	})
}

// Close implements [relay.Connection]. It waits a moment for the calls in
// progress.
func (c *Connection) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	for _, l := range c.lines {
		c.retire(l, closeTimeout)
	}
	c.mu.Unlock()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.closing.Wait()
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call runs a call on the line of an entity that has this key.
func (c *Connection) call(key, entity string, do func(l *line) error) error {
	l, err := c.begin(key, entity)
	if err != nil {
		return err
	}
	defer l.calls.Done()
	return do(l)
}

// begin returns the line, for one call. The caller ends it with calls.Done.
func (c *Connection) begin(key, entity string) (*line, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errConnectionClosed
	}
	l := c.lines[key]
	if l == nil {
		var err error
		if l, err = c.connector.newLine(key, entity, c.replace); err != nil {
			return nil, refusedSettings(err)
		}
		l.lifetime = time.AfterFunc(lineLifetime, func() { c.replace(l) })
		c.lines[key] = l
	}
	l.calls.Add(1)
	return l, nil
}

// notAttached returns the error of a call that could not attach a link,
// classified. It closes the line: there may be no such entity.
func (c *Connection) notAttached(ctx context.Context, l *line, err error) error {
	c.replace(l)
	return classify(ctx, err)
}

// failed returns the error of a request, classified. Only an answer of the bus
// shows that the line still works.
func (c *Connection) failed(ctx context.Context, l *line, err error) error {
	if !isAnswer(err) {
		c.replace(l)
	}
	return classify(ctx, err)
}

// replace has the next call begin a new line. The calls in progress go on.
func (c *Connection) replace(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lines[l.key] == l {
		c.retire(l, patience)
	}
}

// patience is how long the calls in progress on a line that was replaced may
// take. A receive ends at once.
const patience = 10 * time.Second

// retire closes a line after its calls. The caller holds mu.
func (c *Connection) retire(l *line, patience time.Duration) {
	delete(c.lines, l.key)
	l.lifetime.Stop()
	l.retire()
	c.closing.Go(func() {
		cutting := time.AfterFunc(patience, l.cut)
		l.calls.Wait()
		cutting.Stop()
		l.close()
	})
}
