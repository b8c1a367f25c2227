package servicebus

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/gate"
	"kennel/internal/azure/requests"
	"kennel/queue"
)

const (
	// cachedTimeout bounds a send on a cached connection, which may be dead
	// without notice. On a new connection only the caller's ctx bounds it.
	cachedTimeout = 2 * time.Second

	// maxNewSenders is how many new connections one signal may use.
	maxNewSenders = 2

	// senderLifetime is how long an idle connection is kept for the next
	// signal. The SDK first renews tokens after about five minutes, and repeats
	// a renewal that fails without end and almost without a pause; the
	// connection is closed long before.
	senderLifetime = time.Minute

	// messageLifetime is how long the topic keeps a message that is not
	// received. Polling has found the change by then.
	messageLifetime    = time.Minute
	messageLifetimeISO = "PT1M"
)

// sendRetry allows one retry, because the SDK reconnects only before a retry.
// Its default delay of four seconds is longer than most of our deadlines.
var sendRetry = azservicebus.RetryOptions{MaxRetries: 1, RetryDelay: 50 * time.Millisecond}

// Signals implements [gate.Signals] with a topic, and [queue.Signals] with
// Queues. Each process that listens has its own subscription, which Service Bus
// deletes when the process dies.
//
// Publish does not notice if Service Bus answers a message with the outcome
// "released", because the SDK returns nil then. Such a signal is lost.
type Signals struct {
	connector    *connector
	topic        string
	subscription string

	mu      sync.Mutex
	cached  *sender        // for the next signal, or nil; guarded by mu
	closed  bool           // guarded by mu
	closing sync.WaitGroup // senders that are being closed
	current *audience      // of all calls of Listen; nil without one; guarded by mu
}

// sender is a connection for publishing.
type sender struct {
	*azservicebus.Sender
	client *client
	idle   *time.Timer // discards this sender
}

// OpenSignals checks the namespace and returns the signals of a topic. It makes
// no request. Several apps may share a topic: a signal of another app's gate
// costs at most one read of the gate that has the same name here.
func (n Namespace) OpenSignals(topic string, options *Options) (*Signals, error) {
	c, err := n.open(options)
	if err != nil {
		return nil, err
	}
	c.job = "signals"
	// These are 33 of the 50 characters that Service Bus allows.
	return &Signals{connector: c, topic: topic, subscription: "kennel-" + strings.ToLower(rand.Text())}, nil
}

// Publish implements [gate.Signals].
func (s *Signals) Publish(ctx context.Context, signal gate.Signal) error {
	if err := s.publish(ctx, message{Gate: signal.Gate, Generation: signal.Generation}); err != nil {
		return fmt.Errorf("send a signal of gate %q: %w", signal.Gate, err)
	}
	return nil
}

func (s *Signals) publish(ctx context.Context, m message) error {
	for newSenders := 0; ; {
		sender, cached, err := s.takeSender()
		if err == nil {
			err = s.send(ctx, sender, cached, m)
		}
		if err == nil {
			return nil
		}
		if !cached {
			newSenders++
		}
		// A denial on a cached connection may be out of date, so only a new
		// connection can confirm it.
		if ctx.Err() != nil || newSenders == maxNewSenders || !cached && errors.Is(err, ErrDenied) || errors.Is(err, errClosed) {
			return err
		}
	}
}

var errClosed = errors.New("signals are closed")

func (s *Signals) send(ctx context.Context, out *sender, cached bool, m message) error {
	if cached {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cachedTimeout)
		defer cancel()
	}
	err := out.SendMessage(ctx, newMessage(m), nil)
	switch {
	case err == nil:
		s.connector.count(requests.Send, 1)
		out.idle.Reset(senderLifetime)
		return nil
	case isNotFound(err):
		err = fmt.Errorf("%w: %w as %s", ErrDenied, ErrNoTopic, s.topic)
	default:
		err = cleanError(err)
	}
	// After an error a sender may never work again, nor any other sender of its
	// client.
	s.discard(out)
	return err
}

// takeSender returns the cached sender, or caches and returns a new one.
func (s *Signals) takeSender() (_ *sender, cached bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, errClosed
	}
	if s.cached != nil {
		return s.cached, true, nil
	}
	c, err := s.connector.newClient(sendRetry)
	if err != nil {
		return nil, false, cleanError(err)
	}
	out := &sender{client: c}
	if out.Sender, err = c.NewSender(s.topic, nil); err != nil {
		return nil, false, cleanError(err)
	}
	out.idle = time.AfterFunc(senderLifetime, func() { s.discard(out) })
	s.cached = out
	return out, false, nil
}

// discard removes a sender from the cache and closes it in the background.
func (s *Signals) discard(old *sender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cached == old {
		s.cached = nil
		old.idle.Stop()
		s.closing.Go(old.client.close)
	}
}

// Close ends publishing. It returns within [closeTimeout], even if Service Bus
// is unreachable. Listen ends with its own ctx.
func (s *Signals) Close() {
	s.mu.Lock()
	s.closed = true
	cached := s.cached
	s.mu.Unlock()
	if cached != nil {
		s.discard(cached)
	}
	s.closing.Wait()
}

// message is the body of a signal; the zero message is one that cannot be read.
// A later version may add fields; it counts Version up only if this one must not
// read the rest.
type message struct {
	Version    int    `json:"v"`
	Gate       string `json:"gate,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	Queue      string `json:"queue,omitempty"`   // then it is a signal of this queue, and has no Gate
	Kind       string `json:"kind,omitempty"`    // of a queue's signal: kindAwake, or else work
	Control    bool   `json:"control,omitempty"` // then it is a signal of pauses, and has neither
}

const (
	messageVersion = 1
	maxMessage     = 1 << 10 // bytes; the longest of this version has about 150

	kindAwake = "awake"
)

func newMessage(m message) *azservicebus.Message {
	m.Version = messageVersion
	body, _ := json.Marshal(m) // no error is possible
	return &azservicebus.Message{
		Body:        body,
		ContentType: to.Ptr("application/json"),
		MessageID:   to.Ptr(rand.Text()),
		TimeToLive:  to.Ptr(messageLifetime),
	}
}

// decode returns the message in a body, or the zero message if the body is
// unreadable or has another version: a change may have happened.
func decode(body []byte) message {
	var m message
	if len(body) > maxMessage || json.Unmarshal(body, &m) != nil ||
		m.Version != messageVersion || m.Generation < 0 || m.Generation > gate.MaxGeneration || countOf(m.Gate != "", m.Queue != "", m.Control) != 1 ||
		m.Gate != "" && gate.CheckName(m.Gate) != nil || m.Queue != "" && queue.CheckName(m.Queue) != nil {
		return message{}
	}
	return m
}

// countOf returns how many of these are true.
func countOf(all ...bool) (n int) {
	for _, one := range all {
		if one {
			n++
		}
	}
	return n
}
