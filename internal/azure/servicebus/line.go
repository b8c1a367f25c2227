package servicebus

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/azure/requests"
)

const (
	// lineLifetime is how long a line is used. The SDK first renews tokens after
	// five minutes, and repeats a renewal that fails without end and without a
	// pause; the line is closed before.
	lineLifetime = 4 * time.Minute

	// overtime is how long the SDK may take to return after the context of a
	// call ended. Then its line is cut off.
	overtime = 50 * time.Millisecond
)

// noRetry has the SDK try once. With retries it would repeat a message that the
// bus refused because it is busy, and connect again while it holds a lock, for
// which other calls would wait beyond their deadlines.
var noRetry = azservicebus.RetryOptions{MaxRetries: -1}

// line is a client of the SDK to send to one entity, or to receive from it. It connects once, and ends with
// its connection or after [lineLifetime]; then a new one takes its place. An
// entity that does not answer therefore does not delay the others, which the
// SDK would make wait for the same locks.
type line struct {
	*client
	connector   *connector
	key, entity string
	calls       sync.WaitGroup
	lifetime    *time.Timer

	life    context.Context // ends when the line breaks or is cut off
	current context.Context // ends when another line takes its place, or with life
	retire  context.CancelFunc

	attaching chan struct{}        // holds a token while a call attaches a link
	receiving chan struct{}        // holds a token while a call receives
	mu        sync.Mutex           // guards the links; never held during a request
	sender    *azservicebus.Sender // nil unless attached
	receiver  *azservicebus.Receiver

	// While once is set, the SDK cannot attach a link again. It would do that
	// after a detach, and then repeat a message that may be stored already.
	once      atomic.Bool
	transfers atomic.Int64 // frames with messages, requests included
}

// newLine returns a line that connects when it is first used. It calls broke
// when its connection ends, or its attempt to connect fails.
func (c *connector) newLine(key, entity string, broke func(*line)) (*line, error) {
	l := &line{connector: c, key: key, entity: entity, attaching: make(chan struct{}, 1), receiving: make(chan struct{}, 1)}
	life, end := context.WithCancel(context.Background())
	once := *c
	once.dial = func(ctx context.Context) (net.Conn, error) {
		conn, err := c.dial(ctx)
		if err != nil {
			broke(l)
			return nil, err
		}
		return &watchedConn{&outcomeReader{Conn: conn}, l, func() {
			l.cut() // so that the SDK does not connect again
			broke(l)
		}}, nil
	}
	var err error
	if l.client, err = once.newClient(noRetry); err != nil {
		end()
		return nil, err
	}
	l.life = life
	l.current, l.retire = context.WithCancel(life)
	cut := l.client.cut
	l.client.cut = func() {
		end()
		cut()
	}
	return l, nil
}

// watchedConn calls broke when the SDK closes it, which it does as soon as the
// connection ends. It would report the end only to the next call.
type watchedConn struct {
	net.Conn
	line  *line
	broke func()
}

func (w *watchedConn) Close() error {
	defer w.broke()
	return w.Conn.Close()
}

// Write is called by the SDK with one frame.
func (w *watchedConn) Write(frame []byte) (int, error) {
	switch performative(frame) {
	case attachFrame:
		if w.line.once.Load() {
			return 0, errDisconnected
		}
	case transferFrame:
		w.line.transfers.Add(1)
	}
	return w.Conn.Write(frame)
}

// do runs a call of the SDK until its context or the other one ends, which is
// life or current. On a silent connection the SDK may not return when its
// context ends, so do then cuts the line off.
func (l *line) do(ctx, other context.Context, call func(ctx context.Context) error) error {
	done := make(chan struct{})
	defer close(done)
	stopWatch := context.AfterFunc(ctx, func() {
		select {
		case <-done:
		case <-time.After(overtime):
			l.cut()
		}
	})
	defer stopWatch()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(other, cancel)()
	return call(ctx)
}

// attach runs a call that attaches a link, one at a time: the SDK does that
// under a lock, for which a second call would wait beyond its deadline.
func (l *line) attach(ctx context.Context, call func(ctx context.Context) error) error {
	if err := take(ctx, l.attaching); err != nil {
		return err
	}
	defer func() { <-l.attaching }()
	return l.do(ctx, l.life, call)
}

func take(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outlet returns the sender.
func (l *line) outlet(ctx context.Context) (*azservicebus.Sender, error) {
	if s := l.attachedOutlet(); s != nil {
		return s, nil
	}
	var s *azservicebus.Sender
	err := l.attach(ctx, func(ctx context.Context) error {
		if s = l.attachedOutlet(); s != nil {
			return nil // another call has attached it
		}
		var err error
		if s, err = l.NewSender(l.entity, nil); err != nil {
			return err
		}
		// To find out how large a batch may be, the SDK attaches the sender. It
		// sends no message.
		if _, err := s.NewMessageBatch(ctx, nil); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sender = s
		l.once.Store(true)
		return nil
	})
	return s, err
}

func (l *line) attachedOutlet() *azservicebus.Sender {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sender
}

// inlet returns the receiver.
func (l *line) inlet(ctx context.Context) (*azservicebus.Receiver, error) {
	if r := l.attachedInlet(); r != nil {
		return r, nil
	}
	var r *azservicebus.Receiver
	err := l.attach(ctx, func(ctx context.Context) error {
		if r = l.attachedInlet(); r != nil {
			return nil
		}
		var err error
		if r, err = l.NewReceiverForQueue(l.entity, nil); err != nil {
			return err
		}
		// Nothing but a request attaches the receiver.
		l.connector.count(requests.Peek, 1)
		err = withoutPanic(func() error {
			_, err := r.PeekMessages(ctx, 1, peekOldest)
			return err
		})
		if err != nil && !isUnreadable(err) {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.receiver = r
		return nil
	})
	return r, err
}

func (l *line) attachedInlet() *azservicebus.Receiver {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.receiver
}
