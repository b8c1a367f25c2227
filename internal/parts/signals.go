package parts

import (
	"context"
	"errors"
	"time"

	"kennel/channels"
	"kennel/internal/app"
	"kennel/internal/azure/servicebus"
	"kennel/queue"
)

// ofQueues returns the signals of queues, or nil without Service Bus.
func ofQueues(s *servicebus.Signals) queue.Signals {
	if s == nil {
		return nil
	}
	return s.Queues()
}

// connection closes the signals.
type connection struct {
	app.Idle
	*servicebus.Signals
}

func (c connection) Close(context.Context) error { c.Signals.Close(); return nil }

// announced is an outbox whose messages wake the workers. A signal is sent after
// the call and may fail: a worker then finds the message when it polls.
type announced struct {
	channels.Outbox
	publisher *queue.Publisher
	queue     string
}

// Put implements [channels.Outbox]. It signals also a message that is received
// later, because a process that is killed until then would not; the worker
// polls as long as there are messages. After an error the message may exist.
func (a announced) Put(ctx context.Context, text string, delay time.Duration) (receipt string, err error) {
	receipt, err = a.Outbox.Put(ctx, text, delay)
	if !errors.Is(err, channels.ErrRefused) {
		a.publisher.Announce(a.queue)
	}
	return receipt, err
}
