package servicebus

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

	farewell = 2 * time.Second // for the last request
	glance   = time.Millisecond

	// After a failure a random time up to these is waited; longer when it
	// fails again and again.
	firstPause   = time.Second
	longestPause = 30 * time.Second
	steady       = time.Minute // as long as that, and a failure counts as the first
)

// patiently has the SDK repeat more and more rarely what it repeats for ever,
// renewing its tokens; for everything else we have deadlines.
var patiently = azservicebus.RetryOptions{MaxRetries: 5, RetryDelay: 500 * time.Millisecond}

// mostCredit is how many signals the bus may send before it is asked for more.
// To ask is a frame each time, which a crowd of instances would all send in
// the very moment of a release; so we go on with what the bus still has.
const mostCredit = 64

// atOnce has the SDK hand over a message as it comes, instead of waiting for
// more to go with it.
var atOnce = &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: 1}

// fromTheFirst has the SDK peek at the first message each time, not at the one
// after that.
var fromTheFirst = &azservicebus.PeekMessagesOptions{FromSequenceNumber: to.Ptr[int64](1)}

// Listen implements [gate.Signals].
func (s *Signals) Listen(ctx context.Context, l gate.Listener) error {
	e := &ear{s: s, to: l}
	defer func() { e.unsubscribe(context.WithoutCancel(ctx)) }()
	pause := firstPause
	for {
		began := time.Now()
		err := e.hear(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrDenied):
			return fmt.Errorf("listen to topic %s: %w", s.topic, err)
		case time.Since(began) > steady || errors.Is(err, errGone) && !e.fresh:
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

// ear is one call of Listen. Only its goroutine uses it.
type ear struct {
	s  *Signals
	to gate.Listener

	subscribed bool // our subscription is there, as far as we know
	fresh      bool // … and was made for what is heard now
	tried      bool // it may be there

	credit int  // how many signals the bus may still send before it is asked for more
	due    bool // there is one that the bus should have sent
}

// What ends hearing, beside what the SDK says.
var (
	errGone = errors.New("the subscription of this process is gone")
	errDeaf = errors.New("the bus holds back the signals of this process")
	errCut  = errors.New("the connection broke") // the SDK says so by saying nothing
)

// hear listens until something is wrong, and then returns what. It uses a
// client of its own, so that nothing of what was wrong stays.
func (e *ear) hear(ctx context.Context) error {
	if e.fresh = !e.subscribed; e.fresh {
		if err := e.subscribe(ctx); err != nil {
			return e.down(ctx, busFailed(err))
		}
		e.subscribed = true
	}
	client, err := e.s.clients.connect(patiently)
	if err != nil {
		return e.down(ctx, busFailed(err))
	}
	defer client.close()
	return e.down(ctx, e.attend(ctx, client))
}

// down passes on why nothing is heard any more, before anything else takes
// time. What has ended for good its caller hears from Listen.
func (e *ear) down(ctx context.Context, why error) error {
	if ctx.Err() == nil && !errors.Is(why, ErrDenied) {
		e.to.Down(why)
	}
	return why
}

// attend listens by a client until something is wrong, and then returns what.
func (e *ear) attend(ctx context.Context, client *busClient) error {
	const longest = heartbeat + 2*busTimeout
	// The SDK may wait on a dead connection for longer than it was told to.
	watchdog := time.AfterFunc(longest, client.cut)
	defer watchdog.Stop()
	defer context.AfterFunc(ctx, func() { watchdog.Reset(closeWithin) })()

	r, err := client.NewReceiverForSubscription(e.s.topic, e.s.subscription, &azservicebus.ReceiverOptions{
		ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete,
	})
	if err != nil {
		return busFailed(err)
	}
	e.credit, e.due = 0, false
	// The first knock connects; what the bus thinks of being asked for signals
	// is known after the second.
	for range 2 {
		if err == nil {
			err = e.knock(ctx, r)
		}
		if err == nil {
			_, err = e.receive(ctx, r, glance)
		}
	}
	up := err == nil
	if up {
		e.to.Up()
	}
	for err == nil {
		if watchdog.Reset(longest); ctx.Err() != nil {
			return ctx.Err()
		}
		err = e.next(ctx, r)
	}
	if isGone(err) {
		e.subscribed = false
		return errGone
	}
	if err = busFailed(err); up && errors.Is(err, ErrDenied) {
		return errors.New(err.Error()) // it was not before, so a new client has to say it, too
	}
	return err
}

// next waits for a signal. After a while without one it knocks.
func (e *ear) next(ctx context.Context, r *azservicebus.Receiver) error {
	patience := heartbeat
	if e.due {
		patience = busTimeout
	}
	switch heard, err := e.receive(ctx, r, patience); {
	case heard || err != nil:
		return err
	case e.due:
		return errDeaf
	}
	return e.knock(ctx, r)
}

// knock makes sure that the connection works and the subscription is there,
// and looks whether there is a signal that we should have.
func (e *ear) knock(ctx context.Context, r *azservicebus.Receiver) error {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	err := surviving(func() error {
		waiting, err := r.PeekMessages(ctx, 1, fromTheFirst)
		e.due = e.credit > 0 && len(waiting) > 0
		return err
	})
	if errors.Is(err, errPoison) {
		e.due = e.credit > 0
		return nil // there is a message that cannot be read, so the rest works
	}
	return err
}

// receive waits for signals, hands over those that have come, and says whether
// there were any.
func (e *ear) receive(ctx context.Context, r *azservicebus.Receiver, patience time.Duration) (heard bool, _ error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ask := 1 // the SDK hands a single one over at once, and asks for no more than the bus may send
	if e.credit == 0 {
		e.credit, ask = mostCredit, mostCredit
	}
	var messages []*azservicebus.ReceivedMessage
	err := surviving(func() (err error) {
		messages, err = r.ReceiveMessages(waiting, ask, atOnce)
		return err
	})
	for _, m := range messages {
		if signal, ours := decodeSignal(m.Body, e.s.store); ours {
			e.to.Heard(signal)
		}
	}
	switch {
	case len(messages) > 0:
		e.credit, e.due = max(0, e.credit-len(messages)), false
		return true, nil
	case errors.Is(err, errPoison):
		e.credit, e.due = e.credit-1, false
		e.to.Heard(gate.Signal{}) // it was one of ours, perhaps
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case waiting.Err() != nil:
		return false, nil
	case err == nil:
		return false, errCut
	}
	return false, err
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
