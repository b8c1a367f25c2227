package azure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"kennel/gate"
)

const (
	// heartbeat is how long nothing may happen until we look whether the
	// connection is still good and the subscription still there. Looking also
	// counts as its use.
	heartbeat = 30 * time.Second

	// subscriptionLives is how long Service Bus keeps a subscription that
	// nobody uses: the least it allows.
	subscriptionLives = "PT5M"
	signalLivesISO    = "PT1M"

	busTimeout = 5 * time.Second // for each request
	farewell   = 2 * time.Second // for the last one

	// After a failure a random time up to these is waited; longer when it
	// fails again and again.
	firstPause   = time.Second
	longestPause = 30 * time.Second
	steady       = time.Minute // as long as that, and a failure counts as the first
)

// Listen implements [gate.Signals].
func (s *Signals) Listen(ctx context.Context, l gate.Listener) error {
	e := &ear{s: s, to: l}
	defer func() { e.unsubscribe(context.WithoutCancel(ctx)) }()
	pause := firstPause
	for {
		began := time.Now()
		err := e.hear(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, ErrDenied) {
			return fmt.Errorf("listen to topic %s: %w", s.topic, err)
		}
		l.Down(err)
		if time.Since(began) > steady || errors.Is(err, errGone) && !e.fresh {
			pause = firstPause
		}
		select {
		case <-time.After(rand.N(pause)):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, longestPause)
	}
}

// mostCredit is how many signals the bus may send before it is asked for more.
// To ask is a frame each time, which a crowd of instances would all send in
// the very moment of a release; so we go on with what the bus still has.
const mostCredit = 64

// atOnce has the SDK hand over a message as it comes, instead of waiting for
// more to go with it.
var atOnce = &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: 1}

// errGone says that the subscription was removed: by hand, or by Service Bus
// while we could not use it.
var errGone = errors.New("the subscription of this process is gone")

// ear is one call of Listen. Only its goroutine uses it.
type ear struct {
	s  *Signals
	to gate.Listener

	subscribed bool // our subscription is there, as far as we know
	fresh      bool // … and was made for what is heard now
	tried      bool // it may be there

	credit int // how many signals the bus may still send before it is asked for more
}

// hear listens until something is wrong, and then returns what. It uses a
// client of its own, so that nothing of what was wrong stays.
func (e *ear) hear(ctx context.Context) error {
	if e.fresh = !e.subscribed; e.fresh {
		if err := e.subscribe(ctx); err != nil {
			return busFailed(err)
		}
		e.subscribed = true
	}
	client, err := e.s.clients.connect()
	if err != nil {
		return busFailed(err)
	}
	defer e.s.clients.close(client)
	r, err := client.NewReceiverForSubscription(e.s.topic, e.s.subscription, &azservicebus.ReceiverOptions{
		ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete,
	})
	if err != nil {
		return busFailed(err)
	}
	e.credit = 0
	if err = e.knock(ctx, r); err == nil {
		e.to.Up()
	}
	for err == nil {
		err = e.next(ctx, r)
	}
	if isGone(err) {
		e.subscribed = false
		return errGone
	}
	return busFailed(err)
}

// knock makes sure that the connection works and the subscription is there.
func (e *ear) knock(ctx context.Context, r *azservicebus.Receiver) error {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	err := surviving(func() error {
		_, err := r.PeekMessages(ctx, 1, nil)
		return err
	})
	if errors.Is(err, errPoison) {
		return nil // there is a message that cannot be read, so the rest works
	}
	return err
}

// next waits for a signal, and hands it over. After a while without one it
// knocks.
func (e *ear) next(ctx context.Context, r *azservicebus.Receiver) error {
	waiting, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	if e.credit == 0 {
		e.credit = mostCredit
	}
	var messages []*azservicebus.ReceivedMessage
	err := surviving(func() (err error) {
		messages, err = r.ReceiveMessages(waiting, e.credit, atOnce)
		return err
	})
	e.credit = max(0, e.credit-len(messages))
	for _, m := range messages {
		e.to.Heard(decodeSignal(m.Body))
	}
	switch {
	case len(messages) > 0:
		return nil
	case errors.Is(err, errPoison):
		e.to.Heard(gate.Signal{}) // it was one of ours, perhaps
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case waiting.Err() != nil:
		return e.knock(ctx, r)
	case err == nil:
		return errors.New("the connection broke") // this is how the SDK says so
	}
	return err
}

// subscribe makes our subscription, unless it is there.
func (e *ear) subscribe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	e.tried = true
	_, err := e.s.clients.admin.CreateSubscription(ctx, e.s.topic, e.s.subscription, &admin.CreateSubscriptionOptions{
		Properties: &admin.SubscriptionProperties{
			AutoDeleteOnIdle:         to.Ptr(subscriptionLives),
			DefaultMessageTimeToLive: to.Ptr(signalLivesISO),
			UserMetadata:             to.Ptr(origin()),
		},
	})
	if refusal, ok := errors.AsType[*azcore.ResponseError](err); ok && refusal.StatusCode == http.StatusConflict {
		return nil
	}
	return err
}

// unsubscribe removes our subscription. If that fails, Service Bus does so
// later.
func (e *ear) unsubscribe(ctx context.Context) {
	if !e.tried {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	_, _ = e.s.clients.admin.DeleteSubscription(ctx, e.s.topic, e.s.subscription, nil)
}

var errPoison = errors.New("a message that the SDK cannot read")

// surviving calls do, and turns a panic into errPoison: the SDK panics on
// messages with properties of unexpected types, which whoever may send can
// put there.
func surviving(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPoison, p)
		}
	}()
	return do()
}
