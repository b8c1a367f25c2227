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
func (n Namespace) OpenRelay(o *Options) (*Relay, error) {
	c, err := n.open(o)
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
// each entity. After a silent loss of the network it may not work for a minute,
// but a new Connection does.
//
// A send is one attempt, with one exception: if the bus detaches the sender,
// the SDK attaches it and sends the message once more. Send does not notice if
// Service Bus answers with the outcome "released", because the SDK returns nil
// then.
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
	return c.call(entity, entity, func(l *line) error {
		sender, err := l.outlet(ctx)
		if err != nil {
			return notSent(c.notAttached(ctx, l, err))
		}
		err = l.do(ctx, l.life, func(ctx context.Context) error { return sender.SendAMQPAnnotatedMessage(ctx, m, nil) })
		switch {
		case err == nil:
			c.connector.count(requests.Send, 1)
			return nil
		case endsLink(err) || l.life.Err() != nil:
			c.replace(l)
		}
		return classify(ctx, err)
	})
}

// Ping implements [relay.Outgoing]: it connects, signs in and attaches a
// sender, on a new connection. The SDK does not report whether the bus then
// grants credit.
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
