package servicebus

import (
	"context"
	"errors"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/azure/requests"
	"kennel/relay"
)

// The service's limits of lock durations, and the duration that a backlog queue
// has unless an operator changed it.
const (
	minLock     = 5 * time.Second
	maxLock     = 5 * time.Minute
	backlogLock = time.Minute
)

// settleTimeout ends a call to settle a message before the SDK would try again,
// after at least 3.2 s and without a limit of ours.
const settleTimeout = 3 * time.Second

// lock is the handle of a delivery.
type lock struct {
	on       *line // that received the message
	receiver *azservicebus.Receiver
	message  *azservicebus.ReceivedMessage
}

// Receive implements [relay.Incoming].
func (c *Connection) Receive(ctx context.Context, queue string, n int) (deliveries []*relay.Delivery, _ error) {
	err := c.call(queue, queue, func(l *line) error {
		r, err := l.inlet(ctx)
		if err != nil {
			return c.notAttached(ctx, l, err)
		}
		if take(ctx, l.receiving) != nil {
			return nil
		}
		defer func() { <-l.receiving }()
		messages, err := c.receive(ctx, l, r, n)
		switch {
		case isUnreadable(err):
			c.connector.count(requests.Deliver, 1)
			return classify(ctx, err)
		case len(messages) > 0:
			deliveries = locked(l, r, messages)
			return nil
		case ctx.Err() != nil, l.current.Err() != nil && l.life.Err() == nil:
			c.connector.count(requests.EmptyReceive, 1)
			return nil // the caller's time is over, or that of the line
		case err == nil:
			err = errDisconnected
		}
		c.replace(l)
		return classify(ctx, err)
	})
	return deliveries, err
}

func (c *Connection) receive(ctx context.Context, l *line, r *azservicebus.Receiver, n int) (messages []*azservicebus.ReceivedMessage, _ error) {
	err := l.do(ctx, l.current, func(ctx context.Context) error {
		return withoutPanic(func() (err error) {
			messages, err = r.ReceiveMessages(ctx, n, nil)
			return err
		})
	})
	c.connector.count(requests.Deliver, len(messages))
	return messages, err
}

func locked(l *line, r *azservicebus.Receiver, messages []*azservicebus.ReceivedMessage) []*relay.Delivery {
	now := time.Now()
	deliveries := make([]*relay.Delivery, len(messages))
	for i, m := range messages {
		d := delivered(m)
		d.LockedUntil = now.Add(lockDuration(now, m.LockedUntil))
		d.Handle = &lock{l, r, m}
		deliveries[i] = d
	}
	return deliveries
}

// lockDuration returns how long a message that was just received is locked. The
// bus reports the end by its own clock. If that is no possible duration by ours,
// the clocks differ.
func lockDuration(now time.Time, until *time.Time) time.Duration {
	if until == nil {
		return backlogLock
	}
	if d := until.Sub(now); minLock <= d && d <= maxLock {
		return d
	}
	return backlogLock
}

// delivered returns a delivery that is not locked.
func delivered(m *azservicebus.ReceivedMessage) *relay.Delivery {
	d := &relay.Delivery{Message: forwardable(m.RawAMQPMessage)}
	if m.SequenceNumber != nil {
		d.Sequence = *m.SequenceNumber
	}
	if m.EnqueuedTime != nil {
		d.Enqueued = *m.EnqueuedTime
	}
	return d
}

// Peek implements [relay.Outgoing].
func (c *Connection) Peek(ctx context.Context, queue string, from int64, n int) (deliveries []*relay.Delivery, _ error) {
	err := c.call(queue, queue, func(l *line) error {
		r, err := l.inlet(ctx)
		if err != nil {
			return c.notAttached(ctx, l, err)
		}
		var messages []*azservicebus.ReceivedMessage
		err = l.do(ctx, l.life, func(ctx context.Context) error {
			return withoutPanic(func() (err error) {
				messages, err = r.PeekMessages(ctx, n, &azservicebus.PeekMessagesOptions{FromSequenceNumber: to.Ptr(from)})
				return err
			})
		})
		c.connector.count(requests.Peek, max(1, len(messages)))
		if err != nil {
			return c.failed(ctx, l, err)
		}
		for _, m := range messages {
			deliveries = append(deliveries, delivered(m))
		}
		return nil
	})
	return deliveries, err
}

// Settle implements [relay.Incoming].
func (c *Connection) Settle(ctx context.Context, d *relay.Delivery, s relay.Settlement) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return c.withLock(ctx, d, requests.Settle, func(ctx context.Context, r *azservicebus.Receiver, m *azservicebus.ReceivedMessage) error {
		switch s.Action {
		case relay.Complete:
			return r.CompleteMessage(ctx, m, nil)
		case relay.Abandon:
			return r.AbandonMessage(ctx, m, nil)
		case relay.DeadLetter:
			return r.DeadLetterMessage(ctx, m, &azservicebus.DeadLetterOptions{Reason: &s.Reason, ErrorDescription: &s.Description})
		}
		return errors.New("unknown action")
	})
}

// Renew implements [relay.Incoming].
func (c *Connection) Renew(ctx context.Context, d *relay.Delivery) error {
	return c.withLock(ctx, d, requests.Renew, func(ctx context.Context, r *azservicebus.Receiver, m *azservicebus.ReceivedMessage) error {
		renewed := *m // the SDK changes it, and another call may settle it now
		now := time.Now()
		if err := r.RenewMessageLock(ctx, &renewed, nil); err != nil {
			return err
		}
		d.LockedUntil = now.Add(lockDuration(now, renewed.LockedUntil))
		return nil
	})
}

// withLock runs a call with a delivery on the line that received it or, if that
// is gone, on the current one of its queue: the lock does not end with the line.
// It counts the operation.
func (c *Connection) withLock(ctx context.Context, d *relay.Delivery, operation string, call func(context.Context, *azservicebus.Receiver, *azservicebus.ReceivedMessage) error) error {
	held, ok := d.Handle.(*lock)
	if !ok {
		return &relay.Error{Class: relay.Invalid, Err: errors.New("the message was not received on this connection")}
	}
	return c.call(held.on.entity, held.on.entity, func(l *line) error {
		r, m := held.receiver, held.message
		if l != held.on {
			var err error
			if r, err = l.inlet(ctx); err != nil {
				return c.notAttached(ctx, l, err)
			}
			m = &azservicebus.ReceivedMessage{LockToken: held.message.LockToken} // settled by its token
		}
		if err := l.do(ctx, l.life, func(ctx context.Context) error { return call(ctx, r, m) }); err != nil {
			return c.failed(ctx, l, err)
		}
		c.connector.count(operation, 1)
		return nil
	})
}
