package servicebus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/gate"
)

const (
	// signalLives is how long the topic keeps a signal for who is not there.
	// Later the gate's own blob has long been read.
	signalLives = time.Minute

	// staleTimeout is how long a signal may take on a connection that has been
	// used before: it may be dead without anybody knowing. A new one has all
	// the time that the caller has.
	staleTimeout = 2 * time.Second

	// freshTries is how many new connections are tried for one signal.
	freshTries = 2

	// outletLives is how long a connection is kept for the next signal. It
	// ends before the SDK first renews its tokens: that, when it fails, is
	// repeated for ever, and hardly with a pause.
	outletLives = time.Minute
)

// promptly makes the SDK reconnect at all, and soon: it does so only before a
// retry, and by default waits for four seconds before the first, which is
// longer than most of our deadlines.
var promptly = azservicebus.RetryOptions{MaxRetries: 1, RetryDelay: 50 * time.Millisecond}

// Signals is a [gate.Signals] over a topic. Each process that listens has a
// subscription of its own, which Service Bus removes by itself when the
// process is gone without a goodbye.
//
// Publish cannot know of a message that the bus answers "released": the SDK
// takes that for success. It is a lost signal then.
type Signals struct {
	clients      *busClients
	topic        string
	store        string
	subscription string

	mu      sync.Mutex
	outlet  *outlet // what is published goes there; nil until something is; guarded by mu
	closed  bool    // guarded by mu
	closing sync.WaitGroup
}

// outlet is a connection to publish by.
type outlet struct {
	client *busClient
	sender *azservicebus.Sender
	idle   *time.Timer // ends it
}

// OpenSignals checks the bus, and returns the signals of its topic that are
// about the gates of one store, as [Gates.Store] names it: others may share the
// topic. It makes no request.
func (b Namespace) OpenSignals(topic, store string, o *Options) (*Signals, error) {
	clients, err := b.open(o)
	if err != nil {
		return nil, err
	}
	// At most 50 characters may name a subscription; these are 33.
	return &Signals{clients: clients, topic: topic, store: store, subscription: "kennel-" + strings.ToLower(rand.Text())}, nil
}

// Publish implements [gate.Signals].
func (s *Signals) Publish(ctx context.Context, signal gate.Signal) error {
	for tries := 0; ; {
		out, fresh, err := s.takeOutlet()
		if err == nil {
			err = s.send(ctx, out, fresh, signal)
		}
		if err == nil {
			return nil
		}
		// Only a new connection is believed that something is not allowed or not
		// there: what an old one says may be long over.
		if fresh {
			tries++
		}
		if ctx.Err() != nil || tries == freshTries || fresh && errors.Is(err, ErrDenied) || errors.Is(err, errClosed) {
			return fmt.Errorf("send a signal of gate %q: %w", signal.Gate, err)
		}
	}
}

var errClosed = errors.New("signals are closed")

func (s *Signals) send(ctx context.Context, out *outlet, fresh bool, signal gate.Signal) error {
	if !fresh {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, staleTimeout)
		defer cancel()
	}
	err := out.sender.SendMessage(ctx, newSignalMessage(signal, s.store), nil)
	switch {
	case err == nil:
		out.idle.Reset(outletLives)
		return nil
	case isGone(err):
		err = fmt.Errorf("%w: there is no topic %s", ErrDenied, s.topic)
	default:
		err = busFailed(err)
	}
	// A sender that has failed may never work again, and neither may the others
	// of its client.
	s.dropOutlet(out)
	return err
}

func newSignalMessage(signal gate.Signal, store string) *azservicebus.Message {
	return &azservicebus.Message{
		Body:        encodeSignal(signal, store),
		ContentType: to.Ptr("text/plain; charset=utf-8"),
		MessageID:   to.Ptr(rand.Text()),
		TimeToLive:  to.Ptr(signalLives),
	}
}

// takeOutlet returns the connection to publish by, which is made if there is
// none.
func (s *Signals) takeOutlet() (out *outlet, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, errClosed
	}
	if s.outlet != nil {
		return s.outlet, false, nil
	}
	client, err := s.clients.connect(promptly)
	if err != nil {
		return nil, true, busFailed(err)
	}
	sender, err := client.NewSender(s.topic, nil)
	if err != nil {
		return nil, true, busFailed(err)
	}
	out = &outlet{client: client, sender: sender}
	out.idle = time.AfterFunc(outletLives, func() { s.dropOutlet(out) })
	s.outlet = out
	return out, true, nil
}

// dropOutlet has the next signal make a new connection, and ends this one
// meanwhile.
func (s *Signals) dropOutlet(out *outlet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outlet == out {
		s.outlet = nil
		out.idle.Stop()
		s.closing.Go(out.client.close)
	}
}

// Close ends publishing, within a second also when the bus is away; listening
// ends with its context.
func (s *Signals) Close() {
	s.mu.Lock()
	s.closed = true
	out := s.outlet
	s.mu.Unlock()
	if out != nil {
		s.dropOutlet(out)
	}
	s.closing.Wait()
}

// origin tells whoever looks at the subscriptions whose this one is.
func origin() string {
	name, err := os.Hostname()
	if err != nil {
		name = "a host without a name"
	}
	return fmt.Sprintf("process %d on %.200s", os.Getpid(), name)
}
