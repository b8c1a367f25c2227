package servicebus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"kennel/internal/azure/requests"
)

const (
	// probeInterval is how long a connection may be silent before a probe
	// checks it and the subscription. A probe also counts as use of the
	// subscription.
	probeInterval = 30 * time.Second

	// maxSilence is how long the SDK may take for one receive and one probe.
	// Then the client is cut off: on a dead connection the SDK may wait longer
	// than its context allows.
	maxSilence = probeInterval + 2*requestTimeout

	// After a failure Listen waits for a random time up to a backoff, which
	// doubles with each failure. A connection that lasted for stableAfter
	// resets it.
	minBackoff  = time.Second
	maxBackoff  = 30 * time.Second
	stableAfter = time.Minute

	// Service Bus deletes a subscription that is unused for this long, which is
	// the minimum.
	subscriptionLifetimeISO = "PT5M"
	unsubscribeTimeout      = 2 * time.Second
)

// listenRetry slows down the token renewals that the SDK repeats without end.
// All other calls have deadlines of ours.
var listenRetry = azservicebus.RetryOptions{MaxRetries: 5, RetryDelay: 500 * time.Millisecond}

// maxCredit is how many signals Service Bus may send before the receiver has to
// grant more. A grant costs a frame. After a release all instances would send
// one at the same moment, so a grant covers many signals.
const maxCredit = 64

var (
	// deliverAtOnce has the SDK return a message without waiting for more.
	deliverAtOnce = &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: 1}

	// peekOldest has the SDK peek at the oldest message each time, not at the
	// next.
	peekOldest = &azservicebus.PeekMessagesOptions{FromSequenceNumber: to.Ptr[int64](1)}
)

// listen listens until ctx ends or this process is denied to listen.
func (s *Signals) listen(ctx context.Context, to *audience) error {
	l := &listener{Signals: s, to: to}
	defer func() { l.unsubscribe(context.WithoutCancel(ctx)) }()
	backoff := minBackoff
	for {
		began := time.Now()
		err := l.listen(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrDenied):
			return fmt.Errorf("listen to topic %s: %w", s.topic, err)
		case time.Since(began) > stableAfter || errors.Is(err, errNoSubscription) && !l.created:
			backoff = minBackoff
		}
		select {
		case <-time.After(rand.N(backoff)):
		case <-ctx.Done():
			return nil
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// listener is one call of Signals.listen. Only the goroutine of that call uses
// it.
type listener struct {
	*Signals
	to *audience

	subscribed bool // the subscription exists, as far as this process knows
	created    bool // … since the current connection began
	mayExist   bool // a request to create it was sent

	credit  int  // signals that Service Bus may send before it needs more credit
	overdue bool // the subscription holds a signal that was not delivered despite credit
}

// Reasons to reconnect, besides the errors of the SDK.
var (
	errNoSubscription = errors.New("the subscription of this process was deleted")
	errNotDelivered   = errors.New("the subscription of this process holds signals that are not delivered")
)

// listen subscribes, connects, receives until something fails, and returns the
// reason. Each call uses a new client, so that no fault of an earlier
// connection remains.
func (l *listener) listen(ctx context.Context) error {
	if l.created = !l.subscribed; l.created {
		if err := l.subscribe(ctx); err != nil {
			return l.down(ctx, cleanError(err))
		}
		l.subscribed = true
	}
	c, err := l.connector.newClient(listenRetry)
	if err != nil {
		return l.down(ctx, cleanError(err))
	}
	defer c.close()
	return l.down(ctx, l.receiveAll(ctx, c)) // before the client is closed, which takes time
}

// down reports that signals may be missed, unless Listen returns the reason.
func (l *listener) down(ctx context.Context, reason error) error {
	if ctx.Err() == nil && !errors.Is(reason, ErrDenied) {
		l.to.down(reason)
	}
	return reason
}

// receiveAll receives until something fails, and returns the reason.
func (l *listener) receiveAll(ctx context.Context, c *client) error {
	watchdog := time.AfterFunc(maxSilence, c.cut)
	defer watchdog.Stop()
	defer context.AfterFunc(ctx, func() { watchdog.Reset(closeTimeout) })()

	r, err := c.NewReceiverForSubscription(l.topic, l.subscription, &azservicebus.ReceiverOptions{
		ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete,
	})
	if err != nil {
		return cleanError(err)
	}
	err = l.start(ctx, r)
	up := err == nil
	if up {
		l.to.rise()
	}
	for err == nil {
		if watchdog.Reset(maxSilence); ctx.Err() != nil {
			return ctx.Err()
		}
		err = l.receiveOrProbe(ctx, r)
	}
	if isNotFound(err) {
		l.subscribed = false
		return errNoSubscription
	}
	if err = cleanError(err); up && errors.Is(err, ErrDenied) {
		return errors.New(err.Error()) // it may be out of date; a new connection has to confirm it
	}
	return err
}

// start grants the first credit and returns once Service Bus has accepted it.
// The first probe connects. The second comes after the grant and shows whether
// Service Bus detached the receiver in reply.
func (l *listener) start(ctx context.Context, r *azservicebus.Receiver) error {
	l.credit, l.overdue = 0, false
	for range 2 {
		if err := l.probe(ctx, r); err != nil {
			return err
		}
		if _, err := l.receive(ctx, r, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// receiveOrProbe waits for a signal, and probes if none arrives.
func (l *listener) receiveOrProbe(ctx context.Context, r *azservicebus.Receiver) error {
	timeout := probeInterval
	if l.overdue {
		timeout = requestTimeout
	}
	switch received, err := l.receive(ctx, r, timeout); {
	case received || err != nil:
		return err
	case l.overdue:
		return errNotDelivered
	}
	return l.probe(ctx, r)
}

// probe checks that the connection works and that the subscription exists. It
// sets overdue.
func (l *listener) probe(ctx context.Context, r *azservicebus.Receiver) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	waiting := 0
	err := withoutPanic(func() error {
		messages, err := r.PeekMessages(ctx, 1, peekOldest)
		waiting = len(messages)
		return err
	})
	if errors.Is(err, errUnreadable) {
		waiting, err = 1, nil // the connection and the subscription have delivered it
	}
	if err == nil {
		l.connector.count(requests.Peek, 1)
	}
	l.overdue = l.credit > 0 && waiting > 0
	return err
}

// receive passes on the signals that arrive within a timeout, and reports
// whether any did.
func (l *listener) receive(ctx context.Context, r *azservicebus.Receiver, timeout time.Duration) (received bool, _ error) {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	count := 1 // the SDK grants credit for one message only if none is left
	if l.credit == 0 {
		l.credit, count = maxCredit, maxCredit
	}
	var messages []*azservicebus.ReceivedMessage
	err := withoutPanic(func() (err error) {
		messages, err = r.ReceiveMessages(waiting, count, deliverAtOnce)
		return err
	})
	l.connector.count(requests.Deliver, len(messages))
	for _, m := range messages {
		l.to.received(decode(m.Body))
	}
	switch {
	case len(messages) > 0:
		l.credit, l.overdue = max(0, l.credit-len(messages)), false
		return true, nil
	case errors.Is(err, errUnreadable):
		l.connector.count(requests.Deliver, 1)
		l.credit, l.overdue = l.credit-1, false
		l.to.received(message{}) // it may have been a signal
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case waiting.Err() != nil:
		return false, nil
	case err == nil:
		return false, errDisconnected
	}
	return false, err
}

// subscribe creates the subscription of this process if it does not exist.
func (l *listener) subscribe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	l.mayExist = true
	host, _ := os.Hostname() // for operators who inspect subscriptions
	_, err := l.connector.admin.CreateSubscription(ctx, l.topic, l.subscription, &admin.CreateSubscriptionOptions{
		Properties: &admin.SubscriptionProperties{
			AutoDeleteOnIdle:         to.Ptr(subscriptionLifetimeISO),
			DefaultMessageTimeToLive: to.Ptr(messageLifetimeISO),
			UserMetadata:             to.Ptr(fmt.Sprintf("process %d on %.200s", os.Getpid(), host)),
		},
	})
	if response, ok := errors.AsType[*azcore.ResponseError](err); ok && response.StatusCode == http.StatusConflict {
		return nil
	}
	return err
}

// unsubscribe deletes the subscription. If that fails, Service Bus deletes it
// after its lifetime.
func (l *listener) unsubscribe(ctx context.Context) {
	if !l.mayExist {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, unsubscribeTimeout)
	defer cancel()
	_, _ = l.connector.admin.DeleteSubscription(ctx, l.topic, l.subscription, nil)
}
