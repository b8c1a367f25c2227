package azure

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

	// publishTries and publishTimeout are for each of Publish: a second try
	// has a connection of its own, because the first one's may be dead without
	// anybody knowing.
	publishTries   = 2
	publishTimeout = 2 * time.Second
)

// Signals is a [gate.Signals] over a topic. Each process that listens has a
// subscription of its own, which Service Bus removes by itself when the
// process is gone without a goodbye.
type Signals struct {
	clients      *busClients
	topic        string
	subscription string

	mu      sync.Mutex
	outlet  *outlet // what is published goes there; nil until something is; guarded by mu
	closed  bool    // guarded by mu
	closing sync.WaitGroup
}

// outlet is a connection to publish by.
type outlet struct {
	client *azservicebus.Client
	sender *azservicebus.Sender
}

// OpenSignals checks the bus, and returns the signals of its topic. It makes
// no request.
func (b Bus) OpenSignals(topic string, o *BusOptions) (*Signals, error) {
	clients, err := b.open(o)
	if err != nil {
		return nil, err
	}
	// At most 50 characters may name a subscription; these are 33.
	return &Signals{clients: clients, topic: topic, subscription: "kennel-" + strings.ToLower(rand.Text())}, nil
}

// Publish implements [gate.Signals].
func (s *Signals) Publish(ctx context.Context, signal gate.Signal) error {
	var err error
	for range publishTries {
		if err = s.send(ctx, signal); err == nil {
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrDenied) {
			break
		}
	}
	return fmt.Errorf("send a signal of gate %q: %w", signal.Gate, err)
}

func (s *Signals) send(ctx context.Context, signal gate.Signal) error {
	out, err := s.takeOutlet()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	err = out.sender.SendMessage(ctx, &azservicebus.Message{
		Body:        encodeSignal(signal),
		ContentType: to.Ptr("application/json"),
		MessageID:   to.Ptr(rand.Text()),
		TimeToLive:  to.Ptr(signalLives),
	}, nil)
	switch {
	case isGone(err):
		err = fmt.Errorf("%w: there is no topic %s", ErrDenied, s.topic)
	case err != nil:
		err = busFailed(err)
	}
	if err != nil {
		// A sender that has failed may never work again, and neither may the
		// others of its client.
		s.dropOutlet(out)
	}
	return err
}

// takeOutlet returns the connection to publish by, which is made if there is
// none.
func (s *Signals) takeOutlet() (*outlet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("signals are closed")
	}
	if s.outlet != nil {
		return s.outlet, nil
	}
	client, err := s.clients.connect()
	if err != nil {
		return nil, busFailed(err)
	}
	sender, err := client.NewSender(s.topic, nil)
	if err != nil {
		return nil, busFailed(err)
	}
	s.outlet = &outlet{client, sender}
	return s.outlet, nil
}

// dropOutlet has the next signal make a new connection, and ends this one
// meanwhile.
func (s *Signals) dropOutlet(out *outlet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outlet == out {
		s.outlet = nil
		s.closing.Go(func() { s.clients.close(out.client) })
	}
}

// Close ends publishing; listening ends with its context.
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
